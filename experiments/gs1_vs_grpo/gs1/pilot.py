"""The pilot: a few steps of each arm with adapters that are thrown away, and what they show.

What the activation gate judges of the weights is computed from the file that goes on record, not beside it: whoever has
the file can compute the same numbers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tinker

from research_exchange.harness import Exhibit, jsonl
from research_exchange.harness.tasks import Task

from .baselines import (
    contributors,
    group_advantages,
    loo_advantages,
    uniform_weights,
    variance_equivalent_batch,
)
from .plan import Arm, Plan
from .rollouts import Rollouts, Update, sample, update, worth

__all__ = ["PILOT_STEPS", "Pilot", "PilotedArm", "measured", "pilot", "piloted_arms"]

PILOT_STEPS = 3
"""Of each arm."""


@dataclass(frozen=True)
class PilotedArm:
    """The steps of one arm."""

    arm: Arm
    rollouts: list[Rollouts]
    updates: list[Update]
    checkpoint: str
    """Its last weights, which the answers of its first step are stale to."""
    base_model: str
    """By the training client."""


@dataclass(frozen=True)
class Pilot:
    """What was seen of both arms."""

    treatment: PilotedArm
    baseline: PilotedArm
    exhibit: Exhibit
    """Rewards and weights of every rollout of the treatment, one line each."""

    @property
    def values(self) -> dict[str, float | str]:
        """What the activation gate judges, by the names of the spec's checks, and more that it does not judge."""
        rewards = [done.rewards for each in (self.treatment, self.baseline) for done in each.rollouts]
        sizes = {done.rewards.size for each in (self.treatment, self.baseline) for done in each.rollouts}
        planned = self.treatment.arm.rollouts_per_step
        return {
            "gs1_executed_group_size": max(len(group) for done in self.treatment.rollouts for group in done.groups),
            "rollouts_per_step_both_arms": next(iter(sizes - {planned}), planned),
            "batch_mean_reward_pilot": float(np.concatenate([each.ravel() for each in rewards]).mean()),
            "executed_base_model": self.treatment.base_model,
            "grpo_groups_without_advantage": float(
                np.mean([(group_advantages(done.rewards) == 0).all(axis=1).mean() for done in self.baseline.rollouts])
            ),
            "largest_logprob_gap": max(
                done.signals.get("logprob_gap_largest", 0.0)
                for each in (self.treatment, self.baseline)
                for done in each.updates
            ),
            **measured(self.exhibit.content),
        }


def piloted_arms(plan: Plan) -> tuple[Arm, Arm]:
    """The treatment and its baseline; what the gate asks is about them, and a control has no part in it."""
    return plan.treatment, plan.baseline


def pilot(service: tinker.ServiceClient, plan: Plan, task: Task) -> Pilot:
    """A few steps of both arms, on the last problems of the training list."""
    treatment, baseline = (_piloted(service, plan, task, arm) for arm in piloted_arms(plan))
    rows = [row for step, done in enumerate(treatment.rollouts) for row in _rows(done, treatment.arm, plan, step)]
    return Pilot(treatment, baseline, Exhibit("pilot-weights", jsonl(rows)))


def measured(rows: bytes) -> dict[str, float]:
    """What the weights of a pilot show, from the lines of its file.

    B_eff stands there in two readings: the number of rollouts that a baseline listens to (Kish), and the batch size at
    which equal weights would leave as much variance in the advantages.
    """
    steps: dict[int, list[Mapping[str, Any]]] = {}
    for row in map(json.loads, rows.splitlines()):
        steps.setdefault(row["step"], []).append(row)
    rewards = np.array([[row["reward"] for row in lines] for lines in steps.values()])
    weights = np.array([[row["weights"] for row in lines] for lines in steps.values()])
    uniform = uniform_weights(rewards.shape[1])
    pairs = list(zip(rewards, weights, strict=True))
    own = np.array([loo_advantages(reward, weight) for reward, weight in pairs])
    equal = np.array([loo_advantages(reward, uniform) for reward in rewards])
    return {
        "gs1_effective_contributors_median": float(np.median([contributors(weight) for weight in weights])),
        "uniform_loo_effective_contributors_median": float(np.median(contributors(uniform))),
        "gs1_mean_abs_baseline_minus_uniform_loo": float(np.abs(own - equal).mean()),
        "gs1_shuffled_mean_abs_baseline_minus_uniform_loo": float(np.mean(list(_by_chance(pairs, uniform)))),
        "gs1_variance_equivalent_batch": variance_equivalent_batch(own, equal),
        "uniform_loo_variance_equivalent_batch": variance_equivalent_batch(equal, equal),
        "gs1_batch_mean_reward_pilot": float(rewards.mean()),
    }


def _by_chance(pairs: Sequence[tuple[Any, Any]], uniform: Any) -> Iterator[float]:
    """The same distance with the weights dealt to the wrong rollouts: what similarity that knows nothing would show."""
    for step, (reward, weight) in enumerate(pairs):
        dealt = np.random.default_rng(step).permutation(len(reward))
        shuffled = loo_advantages(reward, weight[np.ix_(dealt, dealt)])
        yield float(np.abs(shuffled - loo_advantages(reward, uniform)).mean())


def _piloted(service: tinker.ServiceClient, plan: Plan, task: Task, arm: Arm) -> PilotedArm:
    learner = plan.new_learner(service, arm)
    rollouts, updates = [], []
    last = max(len(task.training) // arm.groups_per_batch, PILOT_STEPS)
    for step in range(last - PILOT_STEPS, last):
        sampler = learner.save_weights_and_get_sampling_client().result()
        rollouts.append(sample(sampler, learner.get_tokenizer(), task, arm, step))
        updates.append(update(learner, rollouts[-1], worth(rollouts[-1], arm, plan, step), plan))
    checkpoint = learner.save_state(f"pilot-{arm.mode}").result().path
    return PilotedArm(arm, rollouts, updates, checkpoint, str(learner.get_info().model_data.model_name))


def _rows(done: Rollouts, arm: Arm, plan: Plan, step: int) -> Iterator[dict[str, Any]]:
    weights = worth(done, arm, plan, step).weights
    assert weights is not None, "the treatment weighs rollouts"
    for problem, reward, row in zip(done.problems, done.rewards.ravel().tolist(), weights.tolist(), strict=True):
        yield {"step": step, "item_id": problem.id, "reward": reward, "weights": row}
