"""The shape of an update, and of the parts that say what a run did and keeps (contract §5, §6, §12, §14, §18)."""

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from research_exchange.deviations import FIELDS
from research_exchange.documents.evidence import KINDS
from research_exchange.documents.run_state import OutcomeReason, RunStatus, Verdict
from research_exchange.schemas.about import AnyJson, Count, Sha256, Text, Version, about, one_of
from research_exchange.schemas.report_shapes import (
    ActivationCalibration,
    AdaptationManifest,
    CorrectnessReport,
    Evaluation,
    Feasibility,
    GenerationAudit,
    InitializationProvenance,
)
from research_exchange.schemas.spec_shapes import Spec

__all__ = ["CapacityBlock", "Decision", "Deviation", "Evidence", "RunDocument", "Update"]

_ARM_METRICS = {"type": "object", "additionalProperties": {"type": "number"}}


class Deviation(TypedDict):
    """One thing done otherwise than the spec says, posted before training with it (R-075)."""

    field: Annotated[str, one_of(FIELDS)]
    original: Text
    effective: Text
    reason: Text


class Observation(TypedDict):
    """One value of one arm on one item (R-141)."""

    item_id: Text
    arm: Text
    seed: int
    metric: Text
    value: Annotated[float, about("In its own units; a failed item scores 0 on a bounded accuracy (R-144).")]
    evaluator_id: Text


class ObservationsFile(TypedDict):
    """A retained file of kind metrics with the same rows (R-142)."""

    name: Text
    sha256: Sha256


class ChosenRate(TypedDict):
    """The learning rates that were tried for an arm, and the one that was chosen (R-152)."""

    grid: list[float]
    selected: float


class Selection(TypedDict, total=False):
    """That everything was chosen before the confirmation items were scored (R-150)."""

    frozen_before_confirmation: bool
    learning_rates: Mapping[str, ChosenRate]


class EditBudget(TypedDict):
    """What a weight edit touched (R-153)."""

    values_touched: Count
    proposals: Count


class Decision(TypedDict):
    """The rows that the Exchange decides from: observations, or a file of them; an interval of one's own is ignored."""

    version: Version
    observations: NotRequired[list[Observation]]
    observations_file: NotRequired[ObservationsFile]
    selection: NotRequired[Selection]
    budgets: NotRequired[Annotated[Mapping[str, EditBudget], about("By arm.")]]


class File(TypedDict):
    """A file to retain: plain name, kind, and its text."""

    name: Annotated[Text, about("A plain name, new for other bytes (R-164).")]
    kind: Annotated[str, one_of(KINDS, "Anything else is kept as other (R-161).")]
    content: NotRequired[Annotated[str, about("UTF-8 text. Other bytes are uploaded by themselves.")]]
    source_url: NotRequired[Annotated[str, about("In the place of content, where the Exchange fetches attachments.")]]
    sha256: NotRequired[Sha256]


class Checkpoint(TypedDict):
    """A reference to a checkpoint; it is not copied (R-16A)."""

    arm: Text
    step: Count
    uri: Annotated[str, about("Without credentials and query.", pattern="^tinker://")]


class Evidence(TypedDict):
    """Files that are kept for ever, checkpoints, and numbers per arm (R-160)."""

    version: Version
    files: NotRequired[list[File]]
    checkpoints: NotRequired[list[Checkpoint]]
    per_arm_metrics: NotRequired[Mapping[str, AnyJson]]


class CapacityBlock(TypedDict):
    """That missing capacity stopped the run (R-201)."""

    error: Text
    comparison_steps_completed: Count
    released_clients: bool


class Cleanup(TypedDict, total=False):
    """What was stopped at the end, and what is still there (R-205)."""

    stopped: list[str]
    remaining: list[str]


class Update(TypedDict):
    """One posted output. Whatever it says it is stored, append-only; null is the same as leaving a part out (R-007)."""

    status: RunStatus
    summary: NotRequired[Annotated[str, about("At most two plain sentences.")]]
    metrics: NotRequired[
        Annotated[
            Mapping[str, float],
            about(
                "Finite numbers by name; under arms the same for each arm (R-068).",
                properties={"arms": {"type": "object", "additionalProperties": _ARM_METRICS}},
            ),
        ]
    ]
    completed_arms: NotRequired[list[Text]]
    verdict: NotRequired[Annotated[Verdict | None, about("With a final status alone (R-061).")]]
    outcome_reason: NotRequired[Annotated[OutcomeReason | None, about("With a final status alone (R-064).")]]
    capacity_block: NotRequired[CapacityBlock | None]
    deviations: NotRequired[Annotated[list[Deviation] | None, about("[] says that there were none.")]]
    original_hypothesis_tested: NotRequired[bool | None]
    tested_instead: NotRequired[str | None]
    initialization_provenance: NotRequired[InitializationProvenance | None]
    correctness_preflight: NotRequired[CorrectnessReport | None]
    activation_calibration: NotRequired[ActivationCalibration | None]
    evaluation: NotRequired[Evaluation | None]
    decision: NotRequired[Decision | None]
    evidence: NotRequired[Evidence | None]
    feasibility: NotRequired[Feasibility | None]
    adaptation_manifests: NotRequired[list[AdaptationManifest] | None]
    generation_audit: NotRequired[GenerationAudit | None]
    cleanup: NotRequired[Cleanup | None]


class RetainedFile(TypedDict):
    """A file of the run: exactly one of content and content_base64."""

    name: Text
    kind: Annotated[str, one_of(KINDS)]
    content: NotRequired[str]
    content_base64: NotRequired[str]
    sha256: NotRequired[Sha256]
    update: NotRequired[Annotated[int | None, about("The update it came with.", minimum=1)]]
    after: NotRequired[Annotated[int | None, about("For an upload: the newest update when it came.", minimum=0)]]


class RunDocument(TypedDict):
    """A whole run. A spec or an update may stand as a string as well: its very bytes."""

    spec: Spec | str
    updates: NotRequired[list[Update | str]]
    evidence: NotRequired[list[RetainedFile]]
    ended: NotRequired[Annotated[str | None, about("Why the run ended without a final update (R-067).")]]
