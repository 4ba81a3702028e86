"""What is checked before anything trains: that centering has something to do, that the losses are right, one start."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tinker
import torch
from numpy.typing import NDArray
from tinker.types import Datum

from research_exchange.client import GateReading, Run
from research_exchange.harness import (
    Case,
    Cause,
    CorrectnessPreflight,
    Diagnosis,
    FixedState,
    HarnessError,
    Item,
    LossPath,
    PairedBatches,
    ReferenceLoss,
    Restoration,
    Schedule,
    Task,
    deterministic_case,
    input_exhibit,
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
    "diagnose",
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


def diagnose(gate: GateReading, plan: Plan, piloted: Pilot) -> Diagnosis:
    """Why the activation gate stopped the run: whether the treatment works where it must, and lies still where it must.

    The inputs are the pilot's own answers; as the learner's distribution serve the sampler's, and one that is off.
    """
    same = [_learner_like_sampler(datum) for datum in piloted.data]
    tilted = [np.where(np.arange(each.shape[1]) % 2, each - 0.3, each) for each in same]
    acts = plan.weight != Weight.IDENTITY
    cases = tuple(
        deterministic_case(
            name,
            learner,
            enabled=lambda given: _by_head(Kind.SCORE_CENTERING, plan, piloted.data, given),
            disabled=lambda given: _by_head(Kind.POLICY_GRADIENT, plan, piloted.data, given),
            must_activate=activates,
            threshold=1e-6,
        )
        for name, learner, activates in (("learner is sampler", same, False), ("learner is off", tilted, acts))
    )
    cause = _cause(gate, cases)
    return Diagnosis(
        gate=gate,
        cause=cause,
        explanation=" ".join(gate.problems) or gate.reason,
        next_diagnostic=_NEXT[cause].format(stale_steps=plan.stale_steps),
        cases=cases,
        inputs=(input_exhibit(piloted.data, "pilot-input"),),
        schedule=Schedule(
            optimizer_calls=pilot_steps(plan),
            disjoint_minibatches=pilot_steps(plan),
            epochs=1,
            intervening_updates=plan.stale_steps,
            sampler_checkpoint=piloted.last,
        ),
    )


_NEXT = {
    Cause.INACTIVE_REGIME: "A new version of the spec, with weights older than {stale_steps} steps to sample from.",
    Cause.DEFECT: "The tests of losses.py, on the inputs that are kept beside this record.",
    Cause.UNKNOWN: "The accuracy of the base model on this task: rl_score_centering.py --measure-base.",
}


def _cause(gate: GateReading, cases: Sequence[Case]) -> Cause:
    """A treatment that does not do on made inputs what it must is defective; one that does has nothing to act on."""
    if not all(case.holds for case in cases):
        return Cause.DEFECT
    inactive = ("stale_logprob_gap", "stale_sum_abs_c")
    return Cause.INACTIVE_REGIME if any(name in str(gate.problems) for name in inactive) else Cause.UNKNOWN


def _learner_like_sampler(datum: Datum) -> NDArray[np.float64]:
    inputs = datum.loss_fn_inputs
    return np.column_stack([inputs["logprobs"].to_numpy(), inputs["head_logprobs"].to_numpy()]).astype(np.float64)


def _by_head(
    kind: Kind, plan: Plan, data: Sequence[Datum], given: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """d loss / d log p of the heads, where the correction is all there is."""
    leaves = [torch.tensor(each, requires_grad=True) for each in given]
    loss, _ = Objective(kind, Weight(plan.weight))(list(data), leaves)
    return [each[:, 1:].numpy() for each in torch.autograd.grad(loss, leaves)]


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
