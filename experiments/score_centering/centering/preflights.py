"""What is checked before anything trains: that centering has something to do, that the losses are right, one start."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import Datum

from research_exchange.client import GateReading, Run
from research_exchange.harness import (
    CorrectnessPreflight,
    FixedState,
    HarnessError,
    Item,
    LossPath,
    PairedBatches,
    ReferenceLoss,
    Restoration,
    Task,
    loss_of,
    pinned_module,
    restore_equivalence,
    revision_of,
    scored_datum,
    service_client,
)
from research_exchange.harness.correctness import Loss, Reference

from . import losses
from .losses import Kind, Objective, Weight, sampled_column
from .plan import Plan
from .training import Point, Training, adamw, new_learner

__all__ = [
    "BASELINE_REVISION",
    "BEYOND_LAG",
    "PATHS",
    "REFERENCE",
    "Pilot",
    "check_losses",
    "pilot",
    "pilot_steps",
    "start_arms",
]

REFERENCE = Path(__file__).parents[1] / "reference.py"
BASELINE_REVISION = f"importance_sampling of tinker {tinker.__version__}"
PATHS = {"score_centering": Kind.SCORE_CENTERING, "policy_gradient": Kind.POLICY_GRADIENT}
"""The custom losses that are checked, by the names of the spec's plan."""
CHECKED_ANSWERS = 24
"""How many answers of the pilot the correctness preflight takes, at most."""
BEYOND_LAG = 2
"""Steps of the pilot at the full age of the sampler's weights."""


@dataclass(frozen=True)
class Pilot:
    """Steps of the centered arm, as many as it takes for its answers to be as old as the plan says."""

    values: dict[str, float | str]
    """What the activation gate judges."""
    data: list[Datum]
    """Answers from its first steps, which its last weights are stale to."""
    checkpoint: str
    """Its last weights."""
    last: str | None
    """The weights that its last answers were sampled from."""


def pilot_steps(plan: Plan) -> int:
    return plan.stale_steps + BEYOND_LAG


def pilot(service: tinker.ServiceClient, tokenizer: Any, task: Task, batches: PairedBatches[Item], plan: Plan) -> Pilot:
    """Train the centered arm on problems of the pilot's own; the adapter is not used again.

    Raises:
        HarnessError: no answer was worth anything, so there is nothing to measure.
    """
    [arm] = [name for name, loss in plan.arms.items() if loss == Kind.SCORE_CENTERING]
    learner = new_learner(service, plan)
    training = Training(Point(arm, plan.seeds[0]), plan, task, service, lambda: learner, tokenizer, batches.shared)
    done = list(training.steps())
    data = [datum for step in done for datum in step.rollouts.data]
    signals = [step.signals for step in done if "sum_abs_c" in step.signals]
    if not signals:
        raise HarnessError(
            f"All groups of the {len(done)} pilot steps were rewarded alike, so nothing can be learned from them; "
            "take an easier task, or a model that sometimes solves this one."
        )
    rewards = np.concatenate([step.rollouts.rewards for step in done])
    stale = [step.signals for step in done[plan.stale_steps :] if "sum_abs_c" in step.signals] or signals[-1:]
    return Pilot(
        values={
            "executed_base_model": str(learner.get_info().model_data.model_name),
            "rollouts_per_problem": rewards.shape[1],
            "rollouts_per_step": rewards.size / len(done),
            "batch_mean_reward": float(rewards.mean()),
            "groups_with_signal": float((rewards.std(axis=1) > 0).mean()),
            "same_weights_logprob_gap": signals[0]["largest_logprob_gap"],
            "stale_logprob_gap": float(np.mean([each["logprob_gap"] for each in stale])),
            "stale_sum_abs_c": float(np.mean([each["sum_abs_c"] for each in stale])),
            "head_mass": float(np.mean([each["head_mass_sampler"] for each in signals])),
        },
        data=data[:CHECKED_ANSWERS],
        checkpoint=learner.save_state("pilot").result().path,
        last=training.snapshots.get(max(0, len(done) - 1 - plan.stale_steps)),
    )


def check_losses(run: Run, plan: Plan, piloted: Pilot, pinned: str) -> GateReading:
    """Hold the custom losses against the stock one, the reference, and themselves one answer at a time."""
    reference, data = pinned_module(REFERENCE, pinned), piloted.data
    names = ("logprobs", "head_logprobs", "advantages")
    given = [[datum.loss_fn_inputs[name].to_numpy().tolist() for datum in data] for name in names]

    def in_double(kind: Kind) -> Reference:
        def found(logprobs: Sequence[NDArray[np.float64]]) -> ReferenceLoss:
            centered = kind is Kind.SCORE_CENTERING
            weight = plan.weight if centered else Weight.NONE
            wanted = reference.loss_and_derivative(
                [each.tolist() for each in logprobs], *given, weight=weight, centered=centered
            )
            return ReferenceLoss(wanted.loss, [np.array(each) for each in wanted.derivative])

        return found

    check = CorrectnessPreflight(
        run,
        FixedState(service_client, piloted.checkpoint),
        data,
        description=f"{len(data)} answers of the pilot's first steps, at the weights after its last",
        implementation=revision_of(Path(losses.__file__)),
        precision="float64 on the client, from the service's float32 log-probabilities",
        normalization="summed over the tokens of all answers",
    )
    for name, kind in PATHS.items():
        if kind in plan.arms.values():
            check.measure(_path(name, Objective(kind, Weight(plan.weight)), in_double(kind)))
    run.evidence(REFERENCE.name, "probe", REFERENCE)
    return check.publish()


def _path(name: str, objective: Objective, reference: Reference) -> LossPath:
    def sends(each: Objective) -> Loss:
        return lambda client, data: client.forward_backward_custom(list(data), each)

    return LossPath(
        id=name,
        stock=lambda client, data: client.forward_backward(sampled_column(data), "importance_sampling"),
        disabled=sends(Objective(Kind.IMPORTANCE_SAMPLING)),
        enabled=sends(objective),
        unpacked=lambda _: sends(objective),
        reference=reference,
        baseline_revision=BASELINE_REVISION,
        reference_revision=revision_of(REFERENCE),
    )


def start_arms(
    run: Run, service: tinker.ServiceClient, plan: Plan, task: Task, points: Sequence[Point]
) -> tuple[Restoration, dict[Point, tinker.TrainingClient]]:
    """One client for each training, all from one untrained adapter, and the proof of it, to be published."""
    origin = new_learner(service, plan)
    example = task.training[0]
    tokens = origin.get_tokenizer().encode(task.prompt(example) + example.reference + "\n")
    batch = [scored_datum(tokens)]
    start = Restoration.begin(run, service, origin, batch)
    learners = {point: start.arm(point.arm, lambda: new_learner(service, plan)) for point in points}
    start.equivalence = restore_equivalence(
        service,
        origin,
        lambda client: loss_of(client.forward_backward(batch, "cross_entropy").result()),
        adamw(plan),
    )
    return start, learners
