"""The shape of an experiment spec (contract §2). Unknown fields are kept, so no shape is closed."""

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from research_exchange.documents.correctness_plan import PathKind
from research_exchange.documents.decision_rule import WEIGHT_EDIT, Multiplicity
from research_exchange.documents.generation_audit import AnswerComparison
from research_exchange.schemas.about import (
    Alpha,
    AnyJson,
    Count,
    NonNegative,
    Positive,
    Sha256,
    Text,
    Version,
    about,
    one_of,
)
from research_exchange.schemas.report_shapes import Feasibility
from research_exchange.statistics import METHODS, UNITS

__all__ = ["Spec"]

_MULTIPLICITY = [each.value for each in Multiplicity]
Bounds = Annotated[list[float], about("Two numbers, low < high.", minItems=2, maxItems=2)]


class Dataset(TypedDict, total=False):
    """The data that is trained on."""

    name: Text
    hf_path: str | None
    split: str
    n_examples: Count


class Optimizer(TypedDict, total=False):
    """The optimizer of every arm that names no other."""

    name: Text
    lr: Positive


class Eval(TypedDict, total=False):
    """What the arms are scored on."""

    benchmark: str
    metric: str
    n_examples: Count
    aggregation: str | None


class Budget(TypedDict):
    """What the run may cost, over all of its sessions (R-200)."""

    gpu_hours: NonNegative
    max_wall_minutes: Positive


class ExperimentFeatures(TypedDict):
    """What the experiment does; an undeclared feature leaves its checks unknown (R-085)."""

    custom_loss: bool
    custom_optimizer: bool
    paired_comparison: bool
    paired_training_arms: bool
    checkpoint_restore: bool
    warmup_adaptation: bool
    generated_training_data: bool
    learned_generator: bool
    heldout_loss: bool
    adaptive_selection: bool


class Arm(TypedDict):
    """One side of the comparison."""

    name: Text
    role: NotRequired[Annotated[Text, about("What a decision rule may call it, such as treatment (R-14C).")]]
    seed: NotRequired[int]
    steps: NotRequired[Count]
    frozen: NotRequired[Annotated[bool, about("True for an arm that is not trained, such as the base model.")]]
    lr_grid: NotRequired[Annotated[list[Positive], about("The learning rates tried for this arm (R-152).", minItems=3)]]


class ActivationCheck(TypedDict):
    """One range that a pilot has to meet: min and/or max, or one_of (R-121)."""

    metric: Text
    measures: NotRequired[str]
    min: NotRequired[Annotated[float, about("Inclusive.")]]
    max: NotRequired[Annotated[float, about("Inclusive.")]]
    one_of: NotRequired[Annotated[list[AnyJson], about("The values allowed, compared with their types.", minItems=1)]]


class ActivationGate(TypedDict):
    """What a short pilot has to show before any full training (R-120)."""

    applicable: bool
    reason: NotRequired[str]
    checks: list[ActivationCheck]


class GroupArm(TypedDict):
    """An arm of a group, with the optimizer it has to have after creation and after every restore."""

    name: Text
    optimizer: Text
    optimizer_config: NotRequired[Mapping[str, AnyJson]]


class Group(TypedDict):
    """Arms that start from one and the same state."""

    arms: Annotated[list[GroupArm], about("Trained arms alone; a frozen baseline is left out (R-09C).", minItems=1)]


class Tolerance(TypedDict):
    """What a comparison may differ by: max_abs_error <= atol + rtol * reference_max_abs (R-104)."""

    atol: NonNegative
    rtol: NonNegative
    min_cosine: NotRequired[Annotated[float, about("The least cosine similarity.", minimum=-1, maximum=1)]]


class RestorationPreflight(TypedDict):
    """Which arms have to be shown to start alike (R-090)."""

    applicable: bool
    reason: NotRequired[str]
    fixed_batch_required: NotRequired[bool]
    exact_replay: NotRequired[bool]
    restore_equivalence: NotRequired[
        Annotated[Tolerance, about("How closely a restored client has to repeat an update (R-09E).")]
    ]
    groups: list[Group]


class LrScalingPlan(TypedDict):
    """How far the norm of an update may depart from proportionality to the learning rate (R-107)."""

    tolerance: NonNegative
    learning_rates: NotRequired[Annotated[list[Positive] | None, about("The probes, where the plan fixes them.")]]
    factors: NotRequired[Annotated[list[Text] | None, about("What is probed one by one.")]]


class PlanPath(TypedDict):
    """One new code path, and what it is compared with."""

    id: Text
    kind: PathKind
    baseline_revision: Annotated[str, about("The pinned revision of the stock behaviour (R-109).")]
    reference_revision: Annotated[str, about("The pinned revision of the treatment's reference (R-109).")]
    tolerances: Annotated[Mapping[str, Tolerance], about("By comparison, such as baseline_loss (R-103).")]
    lr_scaling: NotRequired[LrScalingPlan | None]


class CorrectnessPlan(TypedDict):
    """What a new loss or optimizer has to agree with before any full sweep (R-101)."""

    required: bool
    status: NotRequired[str]
    paths: NotRequired[list[PlanPath]]


class Criterion(TypedDict):
    """One comparison of the rule; larger is better."""

    id: Text
    metric: Text
    weights: Annotated[Mapping[str, float], about("By arm, or by a role that exactly one arm has.", minProperties=1)]
    margin: float
    bounds: Annotated[Bounds, about("Every value of the metric lies in here, ends included (R-144).")]
    tie_band: NotRequired[Bounds | None]
    cluster_by: NotRequired[
        Annotated[Mapping[str, Text] | None, about("The cluster of each item, where items depend on one another.")]
    ]


class Population(TypedDict):
    """The fixed list of items that the evaluated ones are a random subset of."""

    items: Annotated[list[Text], about("All of them.", minItems=1, uniqueItems=True)]
    size: Annotated[int, about("How many of them are evaluated.", minimum=1)]
    sample_seed: int


class ItemList(TypedDict, total=False):
    """A frozen list of items: their ids, or a retained manifest of them by its hash."""

    ids: Annotated[list[Text], about("In the place of a manifest.", minItems=1, uniqueItems=True)]
    manifest_ref: Annotated[Text, about("An evidence file: a JSON array of ids, or lines with an item_id.")]
    manifest_sha256: Sha256


class SelectionPlan(TypedDict):
    """Two lists that have no item in common: one to choose by, one to confirm on (R-151)."""

    selection_items: ItemList
    confirmation_items: ItemList


class DecisionRule(TypedDict):
    """How the Exchange decides from the rows alone (R-140)."""

    version: Version
    estimand: NotRequired[str]
    unit: Annotated[str, one_of(UNITS, "What the conclusion speaks about.")]
    seeds: Annotated[list[int], about("The schedule; no seed is added later (R-148).", minItems=1, uniqueItems=True)]
    alpha: Alpha
    method: Annotated[str, one_of(METHODS, "How the interval is computed.")]
    criteria: Annotated[list[Criterion], about("All of them have to pass.", minItems=1)]
    multiplicity: NotRequired[
        Annotated[str | None, about("How the rule allows for several criteria.", enum=[None, *_MULTIPLICITY])]
    ]
    population: NotRequired[Population | None]
    selection: NotRequired[SelectionPlan | None]
    kind: NotRequired[Annotated[str | None, about("Its arms report budgets (R-153).", enum=[None, WEIGHT_EDIT])]]


class GenerationContract(TypedDict, total=False):
    """What an audit of generated tasks has to show (R-190)."""

    required: bool
    answer_comparison: AnswerComparison | None
    min_sample_size: Annotated[int | None, about("0 or null means 100.", minimum=0)]
    max_label_errors: Count
    max_eval_overlaps: Count


class Spec(TypedDict):
    """An experiment spec. It is immutable once saved, and alone defines hypothesis, methods and criterion."""

    title: Text
    hypothesis: Text
    method: Text
    base_model: Text
    lora_rank: NotRequired[Count]
    training_type: NotRequired[str]
    dataset: NotRequired[Dataset]
    optimizer: NotRequired[Optimizer]
    steps: NotRequired[Count]
    batch_size: NotRequired[Annotated[int, about("Sequences per optimizer step, after accumulation.", minimum=0)]]
    max_seq_len: NotRequired[Count]
    eval: NotRequired[Eval]
    baseline: NotRequired[str]
    experiment_features: NotRequired[ExperimentFeatures]
    activation_gate: NotRequired[ActivationGate]
    restoration_preflight: NotRequired[RestorationPreflight]
    correctness_preflight: NotRequired[CorrectnessPlan]
    success_criterion: Annotated[Text, about("In words; the decision rule says the same in numbers.")]
    decision_rule: NotRequired[DecisionRule | None]
    budget: Budget
    generation_audit: NotRequired[GenerationContract]
    primary_endpoint: NotRequired[str]
    arms: NotRequired[Annotated[list[Arm], about("All names of arms in a run come from here (R-008).")]]
    preflight_probe: NotRequired[AnyJson]
    diagnostic_plan: NotRequired[AnyJson]
    feasibility_required: NotRequired[bool]
    feasibility: NotRequired[Feasibility | None]
    command: NotRequired[Annotated[str, about("What a runner starts, in a copy of the spec's folder.")]]
