"""One step of either arm: answers, their rewards, what they are worth, and one update."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import Datum, ForwardBackwardOutput, SampledSequence

from research_exchange.harness import Item, loss_of, policy_datum, sample_groups, stability_signals
from research_exchange.harness.tasks import Task

from .baselines import Mode, baseline_weights, group_advantages, loo_advantages
from .plan import Arm, Plan

__all__ = ["Rollouts", "Update", "Worth", "policy_data", "sample", "update", "worth"]


@dataclass(frozen=True)
class Rollouts:
    """The graded answers of one step."""

    problems: tuple[Item, ...]
    prompts: tuple[tuple[int, ...], ...]
    """Token ids, one for each problem."""
    groups: tuple[tuple[SampledSequence, ...], ...]
    """The answers to each problem."""
    rewards: NDArray[np.float64]
    """[problems, answers per problem]"""

    @property
    def pairs(self) -> list[tuple[Sequence[int], SampledSequence]]:
        """Prompt and answer of every rollout."""
        return [(prompt, answer) for prompt, group in zip(self.prompts, self.groups, strict=True) for answer in group]

    @property
    def texts(self) -> list[str]:
        """What prompts are compared by: the problem's own words, without the template that all of them share."""
        return [problem.question for problem in self.problems]

    @property
    def tokens(self) -> int:
        """Of all prompts and answers."""
        return sum(len(prompt) + len(answer.tokens) for prompt, answer in self.pairs)

    def chosen(self, numbers: Sequence[int]) -> "Rollouts":
        """The answers to some of the problems."""
        return Rollouts(
            tuple(self.problems[number] for number in numbers),
            tuple(self.prompts[number] for number in numbers),
            tuple(self.groups[number] for number in numbers),
            self.rewards[list(numbers)],
        )


@dataclass(frozen=True)
class Worth:
    """What the rollouts of a step are worth."""

    advantages: NDArray[np.float64]
    """[rollouts]"""
    weights: NDArray[np.float64] | None
    """[rollouts, rollouts] Of the baseline; None in GRPO, whose groups are their own baseline."""


def sample(sampler: tinker.SamplingClient, tokenizer: Any, task: Task, arm: Arm, step: int) -> Rollouts:
    """The answers of a step, at temperature 1."""
    problems = arm.batch(task.training, step)
    prompts = [tokenizer.encode(task.prompt(problem)) for problem in problems]
    groups = sample_groups(
        sampler,
        prompts,
        group_size=arm.group_size,
        max_tokens=task.max_tokens,
        stop=task.stop,
        seed=arm.sampling_seed(step),
    )
    rewards = [
        [task.reward(tokenizer.decode(answer.tokens), problem) for answer in group]
        for problem, group in zip(problems, groups, strict=True)
    ]
    return Rollouts(tuple(problems), tuple(map(tuple, prompts)), tuple(map(tuple, groups)), np.array(rewards))


def worth(rollouts: Rollouts, arm: Arm, plan: Plan, step: int) -> Worth:
    """The advantages of an arm's own mode: all that the arms differ in, beside which prompts they read."""
    if arm.mode is Mode.GRPO:
        return Worth(group_advantages(rollouts.rewards).ravel(), None)
    weights = baseline_weights(arm.mode, rollouts.texts, plan.similarity, arm.tau, seed=(arm.seed, step))
    return Worth(loo_advantages(rollouts.rewards.ravel(), weights), weights)


def policy_data(rollouts: Rollouts, advantages: Sequence[float]) -> list[Datum]:
    """Every rollout with its advantage, those worth nothing included: as the stock loop sends them."""
    return [
        policy_datum(prompt, answer, value) for (prompt, answer), value in zip(rollouts.pairs, advantages, strict=True)
    ]


@dataclass(frozen=True)
class Update:
    """What one step of the optimizer saw and did."""

    data: list[Datum]
    output: ForwardBackwardOutput
    signals: dict[str, float]
    """By the names that a run's page plots."""


def update(learner: tinker.TrainingClient, rollouts: Rollouts, value: Worth, plan: Plan) -> Update:
    """One gradient of the stock loss and one step of AdamW, also where every advantage is 0: momentum goes on."""
    data = policy_data(rollouts, value.advantages.tolist())
    gradient = learner.forward_backward(data, "importance_sampling")
    step = learner.optim_step(plan.adamw())
    output, applied = gradient.result(), step.result().metrics or {}
    signals = stability_signals(
        rewards=rollouts.rewards if value.weights is None else rollouts.rewards.reshape(1, -1),
        sequences=[answer for _, answer in rollouts.pairs],
        data=data,
        output=output,
        applied=applied,
    )
    rollouts_with_signal = float((value.advantages != 0).mean())
    loss = loss_of(output) / len(data)
    return Update(data, output, {**signals, "loss": loss, "rollouts_with_advantage": rollouts_with_signal})
