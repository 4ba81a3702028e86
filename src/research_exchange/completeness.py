"""Which of the evidence a reviewer expects a run retains (R-162). What is missing is shown, never called verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.documents.evidence import EvidenceFile, EvidenceLost
from research_exchange.documents.fields import as_mapping, show_names
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.predictions import PredictionFiles

__all__ = ["Expectation", "ExpectationState", "check_completeness"]


class ExpectationState(StrEnum):
    RETAINED = "retained"
    PARTIAL = "partial"
    """Something is there, but not all of it can be used."""
    UNKNOWN = "unknown"
    """Nothing is there."""
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Expectation:
    """One sort of evidence that a run is expected to keep."""

    kind: str
    state: ExpectationState
    files: tuple[str, ...]
    note: str


def check_completeness(spec: Spec, state: RunState, predictions: PredictionFiles) -> tuple[Expectation, ...]:
    """The expected set, each with what is retained of it."""
    files = predictions.shelf.files
    kinds = ("script", "effective_config", "code_revision", "code_patch", "predictions")
    expected = [_kind(kind, files, predictions) for kind in kinds]
    return (*expected, _per_arm_metrics(spec, state), _generated_tasks(spec, files, predictions))


def _kind(kind: str, files: Sequence[EvidenceFile], predictions: PredictionFiles) -> Expectation:
    names = tuple(file.name for file in files if file.kind == kind)
    if not names:
        note = "A patch is expected only where code was changed." if kind == "code_patch" else "No file of this kind."
        return Expectation(kind, ExpectationState.UNKNOWN, (), note)
    defects = [defect for name in names if (defect := _defect(name, kind, predictions)) is not None]
    if defects:
        return Expectation(kind, ExpectationState.PARTIAL, names, " ".join(defects))
    return Expectation(kind, ExpectationState.RETAINED, names, "Retained; its hash was taken again.")


def _defect(name: str, kind: str, predictions: PredictionFiles) -> str | None:
    try:
        if kind != "predictions":
            predictions.shelf.read(name)
            return None
        bad_line = predictions.read(name).bad_line
    except EvidenceLost as lost:
        return f"Found {lost}."
    return None if bad_line is None else f"Line {bad_line} of {name} is no prediction row."


def _per_arm_metrics(spec: Spec, state: RunState) -> Expectation:
    """Reported in `metrics.arms` or in `evidence.per_arm_metrics` (R-160)."""
    reported = {arm for arm, metrics in state.arms.items() if metrics}
    for posted in state.posted.get("evidence", ()):
        reported |= set(as_mapping(as_mapping(posted.value).get("per_arm_metrics")))
    missing = [arm for arm in spec.arm_names if arm not in reported]
    if not reported:
        return Expectation("per_arm_metrics", ExpectationState.UNKNOWN, (), "No arm has metrics.")
    if missing:
        note = f"Nothing is reported for {show_names(missing)}."
        return Expectation("per_arm_metrics", ExpectationState.PARTIAL, (), note)
    return Expectation("per_arm_metrics", ExpectationState.RETAINED, (), "Reported for every arm.")


def _generated_tasks(spec: Spec, files: Sequence[EvidenceFile], predictions: PredictionFiles) -> Expectation:
    """Expected only of a run that trains on generated data."""
    if spec.features.get("generated_training_data") is False:
        note = "The spec declares that no training data is generated."
        return Expectation("generated_tasks", ExpectationState.NOT_APPLICABLE, (), note)
    return _kind("generated_tasks", files, predictions)
