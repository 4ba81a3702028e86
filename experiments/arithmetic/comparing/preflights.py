"""What is checked before anything trains: the service, a pilot, the custom loss, and one start for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tinker
from numpy.typing import NDArray

from research_exchange.client import GateReading, Run
from research_exchange.harness import (
    CorrectnessPreflight,
    FixedState,
    Item,
    LossPath,
    PairedBatches,
    Point,
    Probe,
    ProbedArm,
    ReferenceLoss,
    Restoration,
    loss_of,
    must_pass,
    pinned_module,
    probe_arms,
    restore_equivalence,
    revision_of,
    scored_datum,
    service_client,
    weighted,
)

from . import training
from .plan import GROUP, PROMPT, RUNNING, Plan
from .training import BaselineLoss, Rollouts, Training

CHECKED_ANSWERS = 24
"""How many answers of the pilot the correctness preflight takes, at most."""
REFERENCE = Path(__file__).parent.with_name("paired_reference.py")
BASELINE_REVISION = f"importance_sampling of tinker {tinker.__version__}"


def probe(run: Run, plan: Plan, example: Sequence[int]) -> list[Probe]:
    """Whether each arm's client exists here and takes a step, in a session that is closed afterwards."""
    with service_client(name=f"{run.id} probe") as service:
        arm = ProbedArm(lambda: plan.new_learner(service), plan.adamw(1e-4))
        return probe_arms(run, {GROUP: arm, RUNNING: arm}, example=example)


@dataclass(frozen=True)
class Pilot:
    """A few steps of the running arm with an adapter that is then thrown away."""

    values: dict[str, float | str]
    first: Rollouts
    """Answers of its first step, which its last weights are stale to."""
    checkpoint: str
    """Its last weights."""


def pilot(service: tinker.ServiceClient, batches: PairedBatches[Item], plan: Plan, learning_rate: float) -> Pilot:
    learner = plan.new_learner(service)
    running = Training(RUNNING, learning_rate, learner, batches.consumption(), plan)
    rollouts, gaps, moved = [], [], []
    for done, update in running.steps():
        rollouts.append(done)
        gaps.append(update.logprob_gap)
        moved.append(np.abs(done.rewards.ravel() - running.baseline - done.group_worth).mean())
    rewards = np.concatenate([done.rewards for done in rollouts])
    return Pilot(
        values={
            "executed_base_model": str(learner.get_info().model_data.model_name),
            "rollouts_per_problem": rewards.shape[1],
            "rollouts_per_step": rewards.size / len(rollouts),
            "batch_mean_reward": float(rewards.mean()),
            "groups_with_signal": float((rewards.std(axis=1) > 0).mean()),
            "mean_change_of_worth": float(np.mean(moved)),
            "largest_logprob_gap": max(gaps),
        },
        first=rollouts[0],
        checkpoint=learner.save_state("pilot").result().path,
    )


def check_loss(run: Run, plan: Plan, piloted: Pilot, pinned: str) -> GateReading:
    """Hold the custom loss against the stock one, against the reference, and against itself one answer at a time."""
    reference = pinned_module(REFERENCE, pinned)
    data, rewards = piloted.first.data[:CHECKED_ANSWERS], piloted.first.rewards.ravel()[:CHECKED_ANSWERS].tolist()
    group_worth = piloted.first.group_worth[:CHECKED_ANSWERS].tolist()
    baseline = float(piloted.first.rewards.mean())
    disabled = BaselineLoss(rewards, [reward - value for reward, value in zip(rewards, group_worth, strict=True)])
    enabled = BaselineLoss(rewards, [baseline] * len(rewards))

    def in_double(logprobs: Sequence[NDArray[np.float64]]) -> ReferenceLoss:
        sampled, mask = (
            [datum.loss_fn_inputs[name].to_numpy().tolist() for datum in data] for name in ("logprobs", "advantages")
        )
        found = reference.loss_and_derivative([p.tolist() for p in logprobs], sampled, mask, rewards, baseline)
        return ReferenceLoss(found.loss, [np.array(row) for row in found.derivative])

    check = CorrectnessPreflight(
        run,
        FixedState(service_client, piloted.checkpoint),
        data,
        description=f"{len(data)} answers of the pilot's first step, at the weights after its last",
        implementation=revision_of(Path(training.__file__)),
        precision="float32, compared in float64",
        normalization="summed over the tokens of all answers",
    )
    check.measure(
        LossPath(
            id="running_baseline",
            stock=lambda client, data: client.forward_backward(weighted(data, group_worth), "importance_sampling"),
            disabled=lambda client, data: client.forward_backward_custom(list(data), disabled),
            enabled=lambda client, data: client.forward_backward_custom(list(data), enabled),
            unpacked=lambda index: lambda client, data: client.forward_backward_custom(list(data), enabled.of(index)),
            reference=in_double,
            baseline_revision=BASELINE_REVISION,
            reference_revision=revision_of(REFERENCE),
        )
    )
    run.evidence(REFERENCE.name, "probe", REFERENCE)
    return check.publish()


def start_arms(
    run: Run, service: tinker.ServiceClient, plan: Plan, origin: tinker.TrainingClient, points: Sequence[Point]
) -> list[tinker.TrainingClient]:
    """One client for each training, all from the adapter of `origin`, and proof of it on record."""
    batch = [scored_datum(origin.get_tokenizer().encode(PROMPT.format(question="12, 7") + " 12\n"))]
    start = Restoration.begin(run, service, origin, batch)
    learners = [start.arm(point.arm, lambda: plan.new_learner(service)) for point in points]
    start.equivalence = restore_equivalence(
        service,
        origin,
        lambda client: loss_of(client.forward_backward(batch, "cross_entropy").result()),
        plan.adamw(1e-4),
    )
    must_pass(start.publish())
    return learners
