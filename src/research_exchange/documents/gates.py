"""What a rule answers: applicability, status, problems and the values it computed (R-010)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from research_exchange.documents.json import JsonValue


class Applicability(StrEnum):
    """Whether a spec asks for a check (R-086)."""

    REQUIRED = "required"
    NOT_APPLICABLE = "not_applicable"
    """Every feature that would ask for it is explicitly false."""
    UNKNOWN = "unknown"
    """A feature is undeclared, so nothing establishes that the check may be left out."""


class GateStatus(StrEnum):
    """What became of a check (R-010)."""

    PASSED = "passed"
    FAILED = "failed"
    """Contradicted by what was reported or retained."""
    UNVERIFIED = "unverified"
    """Missing, incomplete, or not something the Exchange can recompute yet."""
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class Provenance(StrEnum):
    """Where a number in a judgment comes from."""

    RECOMPUTED = "recomputed"
    """Computed by the Exchange from retained evidence."""
    ATTESTED = "attested"
    """Inside a receipt whose signature was verified."""
    DECLARED = "declared"
    """The runner's word."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong, as a sentence and its parts."""

    rule: str
    """E.g. "R-143"."""
    path: str
    """Where, in the document's own words: `decision.observations[12].value`."""
    expected: str
    found: str
    action: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.rule} {self.path}: expected {self.expected}, found {self.found}. {self.action}"


@dataclass(frozen=True)
class GateResult:
    gate: str
    """A name of `experiment_features.CHECKS`."""
    applicability: Applicability
    status: GateStatus
    reason: str
    """One sentence for a reader of the run page."""
    problems: tuple[Problem, ...] = ()
    computed: Mapping[str, JsonValue] = field(default_factory=dict)
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    """For each key of `computed`."""

    @property
    def withholds(self) -> bool:
        """Whether this gate stands in the way of a definitive verdict (R-210, R-212)."""
        return self.applicability is not Applicability.NOT_APPLICABLE and self.status is not GateStatus.PASSED
