"""The generation audit's contract in a spec and its report in an update (R-190, R-192)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.documents.fields import as_mapping, is_text, is_whole, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_ROWS

__all__ = [
    "COUNTS",
    "SAMPLE_SIZE",
    "AnswerComparison",
    "AuditContract",
    "AuditReport",
    "AuditSample",
    "parse_contract",
    "parse_report",
]

SAMPLE_SIZE = 100
"""Accepted tasks that are solved again where the contract names no number, or 0 (R-190)."""
COUNTS = ("generated", "accepted", "rejected", "execution_errors")
"""What a report counts."""

_PATH = "generation_audit"
"""Of the contract in the spec, and of the report in an update."""
_REVISE = "Save a corrected version of the spec."


class AnswerComparison(StrEnum):
    """How a label and an independent answer are compared (R-194)."""

    NUMERIC_EXACT = "numeric_exact"
    """As numbers or fractions, without any tolerance."""
    CATEGORICAL_EXACT = "categorical_exact"
    """As strings, character by character."""


@dataclass(frozen=True)
class AuditContract:
    """What a spec asks of its audit; a limit that is missing or malformed has its default."""

    comparison: AnswerComparison | None
    """None where it is missing, or not one that the Exchange knows."""
    sample_size: int
    max_label_errors: int
    max_eval_overlaps: int
    findings: Findings
    """What is malformed, a missing comparison left aside."""


@dataclass(frozen=True)
class AuditSample:
    """One accepted task that was solved again from its text alone."""

    path: str
    item_id: str
    answer: JsonValue
    reasoning: str | None


@dataclass(frozen=True)
class AuditReport:
    """A parsed report; what could not be read is None."""

    seed: int | None
    counts: Mapping[str, int]
    """The readable ones, by name."""
    samples: tuple[AuditSample, ...] | None
    """None where the report has no list of them."""
    label_errors: int | None
    overlaps: int | None
    duplicates: int | None
    """None where it is not reported, which is no gap."""
    dataset_file: str | None
    evaluation_file: str | None
    audit_file: str | None
    findings: Findings
    """What the report itself says against the audit, such as another stage, and what it lacks."""


def parse_contract(section: object) -> AuditContract:
    """Reads a spec's `generation_audit`. Never raises."""
    contract = as_mapping(section)
    findings = Findings()
    comparison = contract.get("answer_comparison")
    return AuditContract(
        comparison=next((known for known in AnswerComparison if known == comparison), None),
        sample_size=_limit(contract, "min_sample_size", findings) or SAMPLE_SIZE,
        max_label_errors=_limit(contract, "max_label_errors", findings),
        max_eval_overlaps=_limit(contract, "max_eval_overlaps", findings),
        findings=findings,
    )


def _limit(contract: Mapping[str, JsonValue], name: str, findings: Findings) -> int:
    value = contract.get(name)
    if is_whole(value) and value >= 0:
        return value
    if value is not None:
        action = "Save a corrected version of the spec."
        findings.miss("R-190", f"{_PATH}.{name}", "a whole number of at least 0", show(value), action)
    return 0


def parse_report(value: object) -> AuditReport:
    """Reads a report. Never raises: what is malformed is left out and named."""
    return _Reader(as_mapping(value)).read()


class _Reader:
    """Reads a report field by field and collects what is wrong with it."""

    def __init__(self, report: Mapping[str, JsonValue]) -> None:
        self._report = report
        self._findings = Findings()

    def read(self) -> AuditReport:
        version, seed = self._report.get("version"), self._report.get("sample_seed")
        if not is_whole(version) or version != 1:
            self._miss("version", "1", version, "Report version 1.")
        if not is_whole(seed):
            self._miss("sample_seed", "a whole number", seed, "Report the seed that the sample was selected with.")
        stage = self._report.get("stage")
        self._require("stage", stage, "before_training", "An audit guards only the training that comes after it.")
        counts = as_mapping(self._report.get("counts"))
        read = {name: self._count(f"counts.{name}", counts.get(name)) for name in COUNTS}
        duplicates = self._report.get("duplicate_count")
        return AuditReport(
            seed=seed if is_whole(seed) else None,
            counts={name: count for name, count in read.items() if count is not None},
            samples=self._samples(),
            label_errors=self._count("label_error_count", self._report.get("label_error_count")),
            overlaps=self._count("overlap_count", self._report.get("overlap_count")),
            duplicates=None if duplicates is None else self._count("duplicate_count", duplicates),
            dataset_file=self._file("dataset_file"),
            evaluation_file=self._file("evaluation_file"),
            audit_file=self._file("audit_file", ".json"),
            findings=self._findings,
        )

    def _samples(self) -> tuple[AuditSample, ...] | None:
        entries = self._report.get("samples")
        if not isinstance(entries, (list, tuple)) or len(entries) > MAX_ROWS:
            expected = f"a list of at most {MAX_ROWS} samples"
            self._miss("samples", expected, entries, "Report each task that was solved again.")
            return None
        return tuple(self._sample(as_mapping(entry), f"samples[{index}]") for index, entry in enumerate(entries))

    def _sample(self, entry: Mapping[str, JsonValue], path: str) -> AuditSample:
        item, reasoning = entry.get("item_id"), entry.get("reasoning")
        for name in ("item_id", "resolver_id", "reasoning"):
            if not is_text(entry.get(name)):
                action = "Say which task was solved again, by whom, and how."
                self._miss(f"{path}.{name}", "a non-empty string", entry.get(name), action)
        action = "Let somebody else than the generator solve the task again, from its text alone."
        self._require(f"{path}.method", entry.get("method"), "independent_resolve", action)
        blind = entry.get("blind_to_label")
        if blind is not True:
            action = "Solve the task again without sight of its stored answer or code."
            self._findings.contradict("R-197", f"{_PATH}.{path}.blind_to_label", "true", show(blind), action)
        return AuditSample(
            path=f"{_PATH}.{path}",
            item_id=item if is_text(item) else "",
            answer=entry.get("independent_answer"),
            reasoning=reasoning if is_text(reasoning) else None,
        )

    def _require(self, name: str, value: JsonValue, wanted: str, action: str) -> None:
        """Another word contradicts the audit; no word says nothing."""
        if is_text(value) and value != wanted:
            self._findings.contradict("R-197", f"{_PATH}.{name}", show(wanted), show(value), action)
        elif value != wanted:
            self._miss(name, show(wanted), value, action)

    def _count(self, name: str, value: JsonValue) -> int | None:
        if is_whole(value) and value >= 0:
            return value
        self._miss(name, "a whole number of at least 0", value, "Count again, and report every count.")
        return None

    def _file(self, name: str, suffix: str = "") -> str | None:
        value = self._report.get(name)
        if is_text(value) and value.endswith(suffix):
            return value
        expected = f"the name of a retained {suffix or 'JSON Lines'} file"
        self._miss(name, expected, value, "Attach the file as evidence, then name it here.")
        return None

    def _miss(self, name: str, expected: str, value: JsonValue, action: str) -> None:
        self._findings.miss("R-192", f"{_PATH}.{name}", expected, show(value), action)
