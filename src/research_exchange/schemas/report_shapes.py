"""The shapes of the gates' reports: what an update carries about its checks (contract §8 to §11, §15 to §17)."""

from collections.abc import Mapping
from typing import Annotated, Literal, NotRequired, TypedDict

from research_exchange.schemas.about import AnyJson, Count, NonNegative, Positive, Sha256, Text, Version, about

__all__ = [
    "ActivationCalibration",
    "AdaptationManifest",
    "CorrectnessReport",
    "Evaluation",
    "Feasibility",
    "GenerationAudit",
    "InitializationProvenance",
]


class ActivationCalibration(TypedDict):
    """What a short pilot in the exact regime showed, before any full training (R-122)."""

    values: Annotated[Mapping[str, float | str], about("By metric of the spec's checks; others are kept, not judged.")]
    note: NotRequired[str]


class OptimizerCheck(TypedDict):
    """The optimizer as it was after creation (0) or after a restore, before the next update (R-097)."""

    after_restore: Count
    before_next_update: Literal[True]
    source: Literal["server_response", "declared"]
    actual: str | None
    actual_config: NotRequired[Mapping[str, AnyJson] | None]
    evidence_ref: NotRequired[Annotated[str | None, about("The evidence file that holds the answer.")]]


class Initialization(TypedDict):
    """How an arm's initial state is known: a hash of the adapter, an immutable checkpoint, or both (R-092, R-093)."""

    base_checkpoint: Text
    before_first_update: Literal[True]
    source: Literal["server_response", "local_hash"]
    evidence_ref: Text
    adapter_sha256: NotRequired[Sha256]
    checkpoint_uri: NotRequired[str]
    checkpoint_immutable: NotRequired[bool]
    checkpoint_scope: NotRequired[Literal["full_initialization"]]
    loaded_checkpoint_uri: NotRequired[Annotated[str, about("As the load answered; equal to checkpoint_uri.")]]
    load_succeeded: NotRequired[bool]


class InitialOutput(TypedDict):
    """Hashes of a fixed batch and of everything the arm answered to it, or why there is none (R-099)."""

    available: bool
    reason: NotRequired[str]
    batch_sha256: NotRequired[Sha256]
    output_sha256: NotRequired[Sha256]
    evidence_ref: NotRequired[str]
    before_first_update: NotRequired[bool]


class ParityError(TypedDict):
    """How far a measured result is from its reference (R-104, R-105)."""

    max_abs_error: NonNegative
    reference_max_abs: NonNegative
    relative_l2_error: Annotated[float | None, about("null where the reference is 0.", minimum=0)]
    cosine_similarity: float | None


class ArmProvenance(TypedDict):
    """How one arm started."""

    arm: NotRequired[Annotated[Text, about("Left out where arms are a map, which names them already.")]]
    initialization: Initialization
    restore_count: Count
    optimizer_checks: Annotated[list[OptimizerCheck], about("One for every number from 0 to restore_count.")]
    initial_output: InitialOutput
    restore_equivalence: NotRequired[
        Annotated[ParityError, about("Of one fixed-gradient update, restored against uninterrupted (R-09E).")]
    ]


class InitializationProvenance(TypedDict):
    """That the arms of each group started from one state, published before they train (R-091)."""

    version: Version
    arms: list[ArmProvenance] | Mapping[str, ArmProvenance]


class FixedInput(TypedDict):
    """The inputs that every comparison of a path was measured on."""

    sha256: Sha256
    description: Text


class LrProbe(TypedDict):
    """The norm of one update at one learning rate, from the same state."""

    learning_rate: Positive
    update_norm: Positive
    factor: NotRequired[str]


class ReportPath(TypedDict):
    """What was measured on one path of the plan."""

    id: Text
    fixed_input: FixedInput
    baseline_revision: Text
    reference_revision: Text
    implementation_revision: Text
    precision: Text
    normalization: Text
    errors: Annotated[Mapping[str, ParityError], about("By comparison, such as baseline_loss (R-103).")]
    lr_scaling: NotRequired[list[LrProbe] | None]


class CorrectnessReport(TypedDict):
    """Measured errors of a new loss or optimizer; a pass flag of one's own is not looked at (R-102)."""

    required: bool
    paths: list[ReportPath]


class Decoding(TypedDict):
    """How answers are sampled."""

    temperature: float
    max_tokens: int
    stop: AnyJson


class Items(TypedDict, total=False):
    """The items that are scored: ids, or a manifest that is retained as evidence; never both (R-131)."""

    ids: Annotated[list[Text], about("All of them, each once.", minItems=1, uniqueItems=True)]
    manifest_ref: Text
    manifest_sha256: Sha256


class EvaluatorProvenance(TypedDict):
    """A frozen way of scoring. It does not name what is scored."""

    code_sha256: Sha256
    prompt_template: Text
    decoding: Decoding
    parser: Text
    items: Items


class Score(TypedDict):
    """One number that an evaluator gave an arm, not rounded (R-133)."""

    arm: Text
    metric: Text
    value: float
    evaluator_id: Text
    seed: NotRequired[int | None]
    predictions_ref: NotRequired[Annotated[str | None, about("The evidence file, of kind predictions, behind it.")]]


class Comparison(TypedDict):
    """Arms that are compared on a metric."""

    metric: Text
    arms: Annotated[list[Text], about("At least two different ones.", minItems=2, uniqueItems=True)]


class Evaluation(TypedDict):
    """Who scored what, and how (R-130)."""

    version: Version
    evaluators: Annotated[
        Mapping[str, EvaluatorProvenance],
        about("By evaluator_id, the sha256 of the provenance as canonical JSON (R-132)."),
    ]
    scores: list[Score]
    comparisons: NotRequired[list[Comparison]]


class Measurement(TypedDict):
    """A timed piece of one phase, and how much of it is planned (R-171)."""

    seconds: NonNegative
    units: Positive
    planned_units: NonNegative
    samples: Annotated[int, about("How many were drawn meanwhile; 0 for none.", minimum=0)]
    gpu_count: NotRequired[
        Annotated[float | None, about("null where the allocation is unknown; 0 for a phase on CPUs.", minimum=0)]
    ]
    allocation_source: NotRequired[
        Annotated[str | None, about("How the GPUs are known; needed where there are any (R-173).")]
    ]


class Measurements(TypedDict):
    """By phase; generation, filter and audit where training data is generated (R-177)."""

    setup: Measurement
    training: Measurement
    evaluation: Measurement
    generation: NotRequired[Measurement | None]
    filter: NotRequired[Measurement | None]
    audit: NotRequired[Measurement | None]


class Recovery(TypedDict):
    """Time kept back for what goes wrong."""

    seconds: NonNegative
    gpu_count: NotRequired[Annotated[float | None, about("As for a phase.", minimum=0)]]
    allocation_source: NotRequired[str | None]


class Yield(TypedDict):
    """How many generated tasks were accepted in the pilot, and how many are wanted (R-176)."""

    attempted: Annotated[int, about("Candidates of the pilot.", minimum=1)]
    accepted: Count
    target_accepted: Annotated[int, about("Tasks that the run needs.", minimum=1)]
    filter_samples_per_candidate: Count


class Feasibility(TypedDict):
    """Measured times, before the full comparison is started (R-170)."""

    config: NotRequired[AnyJson]
    effective_config: Annotated[Mapping[str, AnyJson], about("What was timed.")]
    primary_endpoint: Annotated[str, about("The spec's.")]
    source: Annotated[Text, about("Where the timings come from.")]
    measurements: Measurements
    generation: NotRequired[Yield | None]
    recovery: Recovery


class AdaptationManifest(TypedDict):
    """The batches that one arm consumed in the steps it shares with its pair (R-181)."""

    arm: Text
    pair: Text
    warmup_batches: Count
    adaptation_batch_ids: Annotated[list[str], about("In the order in which they were consumed.", minItems=1)]
    adaptation_batch_hash: Annotated[Sha256, about("sha256 of json.dumps(ids).")]


class AuditCounts(TypedDict):
    """Rows of the dataset file by disposition."""

    generated: Count
    accepted: Count
    rejected: Count
    execution_errors: Count


class AuditSample(TypedDict):
    """One sampled task, answered without a look at its label."""

    item_id: Text
    independent_answer: float | str
    resolver_id: Text
    method: Literal["independent_resolve"]
    reasoning: Text
    blind_to_label: Literal[True]


class GenerationAudit(TypedDict):
    """An audit of generated tasks, passed before the first optimizer update (R-192)."""

    version: Version
    stage: Literal["before_training"]
    dataset_file: Annotated[Text, about("The retained file of generated tasks, one in each line.")]
    evaluation_file: Annotated[Text, about("The retained file of the full evaluation set.")]
    audit_file: Annotated[str, about("The retained file of this audit.", pattern=r"\.json$")]
    sample_seed: int
    counts: AuditCounts
    samples: list[AuditSample]
    label_error_count: Count
    overlap_count: Count
    duplicate_count: NotRequired[Count]
