"""What a rule answers: applicability, status, problems and the values it computed (R-010)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from research_exchange.documents.json import JsonValue

__all__ = ["Applicability", "Flag", "GateResult", "GateStatus", "Problem", "Provenance", "Reading"]


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
    """It is not known whether the check applies."""


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
class Reading:
    """What a rule found about a gate, before it is considered whether the gate applies."""

    status: GateStatus
    """`passed`, `failed` or `unverified`."""
    reason: str
    """One sentence."""
    problems: tuple[Problem, ...] = ()
    """Not empty unless the status is `passed`; what failed stands before what is missing."""
    computed: Mapping[str, JsonValue] = field(default_factory=dict)
    """Values for a reader, by name."""
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    """Of each computed value; `declared` where nothing is said."""
    flags: tuple["Flag", ...] = ()
    """What a reader should notice whatever became of the gate."""


@dataclass(frozen=True)
class Flag:
    """Something a reader of the run should notice; it stops nothing by itself."""

    rule: str
    update: int | None
    """The sequence number of the update that raised it."""
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}" if self.update is None else f"{self.rule} update {self.update}: {self.text}"


@dataclass(frozen=True)
class GateResult:
    """One gate's answer, recomputed from stored inputs."""

    gate: str
    """A name of `experiment_features.CHECKS`, or `decision`."""
    applicability: Applicability
    status: GateStatus
    reason: str
    """One sentence for a reader of the run page."""
    problems: tuple[Problem, ...] = ()
    computed: Mapping[str, JsonValue] = field(default_factory=dict)
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    """For each key of `computed`."""
    conflict: bool = False
    """The spec's features and its contract disagree about whether the check applies (R-086)."""
