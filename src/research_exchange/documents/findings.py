"""What a rule collects while it reads: what is contradicted, what is missing, and the status both amount to."""

from collections.abc import Iterable

from research_exchange.documents.gates import GateStatus, Problem
from research_exchange.documents.observations import MAX_PROBLEMS

__all__ = ["Findings"]


class Findings:
    """Contradictions and gaps. The first `MAX_PROBLEMS` of each are kept: what is wrong throughout needs no more."""

    def __init__(self) -> None:
        self._contradictions: list[Problem] = []
        self._gaps: list[Problem] = []

    @property
    def status(self) -> GateStatus:
        """A contradiction weighs more than anything that is missing."""
        if self._contradictions:
            return GateStatus.FAILED
        return GateStatus.UNVERIFIED if self._gaps else GateStatus.PASSED

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is contradicted stands first."""
        return tuple((self._contradictions + self._gaps)[:MAX_PROBLEMS])

    @property
    def is_settled(self) -> bool:
        """Whether nothing more can change the status or the problems."""
        return len(self._contradictions) == MAX_PROBLEMS

    @property
    def takes_gaps(self) -> bool:
        """Whether another gap would be kept: where many are possible, the sentence need not be written."""
        return len(self._contradictions) + len(self._gaps) < MAX_PROBLEMS

    def contradict(self, rule: str, path: str, expected: str, found: str, action: str) -> None:
        """Notes what the run itself reported or retained speaks against."""
        self._keep(self._contradictions, Problem(rule, path, expected, found, action))

    def miss(self, rule: str, path: str, expected: str, found: str, action: str) -> None:
        """Notes what is missing, malformed or merely declared."""
        self._keep(self._gaps, Problem(rule, path, expected, found, action))

    def add_gaps(self, problems: Iterable[Problem]) -> None:
        """Takes over problems that a parser found."""
        for problem in problems:
            self._keep(self._gaps, problem)

    def add(self, other: "Findings") -> None:
        """Takes over all that another one collected."""
        for problem in other._contradictions:
            self._keep(self._contradictions, problem)
        self.add_gaps(other._gaps)

    def _keep(self, kept: list[Problem], problem: Problem) -> None:
        if len(kept) < MAX_PROBLEMS:
            kept.append(problem)
