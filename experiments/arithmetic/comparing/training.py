"""One training: answers, their worth, and the losses of the two arms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tinker
import torch
from numpy.typing import NDArray
from tinker.types import Datum

from research_exchange.harness import (
    Consumption,
    Item,
    largest_logprob_gap,
    loss_of,
    policy_datum,
    sample_groups,
    weighted,
)

from .plan import ANSWER_TOKENS, PROMPT, RUNNING, STOP, Plan, answer


@dataclass(frozen=True)
class Rollouts:
    """The graded answers to one batch."""

    rewards: NDArray[np.float64]
    """[problems, answers per problem], 1 where the answer is right."""
    data: list[Datum]
    """Every answer in the same order, each of its tokens worth 1."""
    tokens: int
    """Of all prompts and answers."""

    @property
    def group_worth(self) -> NDArray[np.float64]:
        """[answers] Reward less the mean of the answer's own group."""
        worth: NDArray[np.float64] = (self.rewards - self.rewards.mean(axis=1, keepdims=True)).ravel()
        return worth


def sample(sampler: tinker.SamplingClient, tokenizer: Any, batch: Sequence[Item], plan: Plan, seed: int) -> Rollouts:
    prompts = [tokenizer.encode(PROMPT.format(question=problem.question)) for problem in batch]
    groups = sample_groups(
        sampler, prompts, group_size=plan.group_size, max_tokens=ANSWER_TOKENS, stop=[STOP], seed=seed
    )
    return Rollouts(
        rewards=np.array(
            [
                [float(answer(tokenizer.decode(each.tokens)) == problem.reference) for each in group]
                for problem, group in zip(batch, groups, strict=True)
            ]
        ),
        data=[policy_datum(prompt, each, 1.0) for prompt, group in zip(prompts, groups, strict=True) for each in group],
        tokens=sum(
            len(prompt) + len(each.tokens) for prompt, group in zip(prompts, groups, strict=True) for each in group
        ),
    )


@dataclass(frozen=True)
class BaselineLoss:
    """−Σ (reward − baseline) · p/q over the answers' tokens: the custom loss of the running arm."""

    rewards: Sequence[float]
    baselines: Sequence[float]
    """One per answer: all the same in the running arm; each group's own mean with the treatment switched off."""

    def __call__(self, data: list[Datum], logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        terms = []
        for datum, learned, reward, baseline in zip(data, logprobs, self.rewards, self.baselines, strict=True):
            sampled, mask = (torch.tensor(datum.loss_fn_inputs[name].data) for name in ("logprobs", "advantages"))
            terms.append(((learned - sampled).exp() * mask).sum() * (reward - baseline))
        return -torch.stack(terms).sum(), {}

    def of(self, index: int) -> "BaselineLoss":
        """The part of one answer."""
        return BaselineLoss(self.rewards[index : index + 1], self.baselines[index : index + 1])


@dataclass(frozen=True)
class Update:
    """What one optimizer step saw."""

    loss: float
    """Mean over the answers that it learned from."""
    logprob_gap: float
    """See `largest_logprob_gap`."""


@dataclass
class Training:
    """One training: its client, what it consumed, and the baseline as it runs."""

    arm: str
    learning_rate: float
    learner: tinker.TrainingClient
    consumption: Consumption[Item]
    plan: Plan
    baseline: float = 0.0

    def steps(self) -> Iterator[tuple[Rollouts, Update]]:
        """All steps on the shared batches; yields each as it is done."""
        if self.arm == RUNNING:
            self._warm_up()
        for number, batch in enumerate(self.consumption.shared()):
            rollouts = self._sample(batch.items, number)
            yield rollouts, self._update(rollouts, self.learning_rate * (1 - number / self.plan.steps))
            self.baseline = float(rollouts.rewards.mean())

    def _warm_up(self) -> None:
        means = [
            self._sample(batch.items, self.plan.steps + number).rewards.mean()
            for number, batch in enumerate(self.consumption.warm_up())
        ]
        self.baseline = float(np.mean(means))

    def _sample(self, batch: Sequence[Item], number: int) -> Rollouts:
        sampler = self.learner.save_weights_and_get_sampling_client().result()
        seed = 1_000_000 * self.plan.seed + 1_000 * number
        return sample(sampler, self.learner.get_tokenizer(), batch, self.plan, seed)

    def _update(self, rollouts: Rollouts, learning_rate: float) -> Update:
        """One gradient of the arm's loss and one step of AdamW; neither without anything to learn from."""
        if self.arm == RUNNING:
            rewards = rollouts.rewards.ravel().tolist()
            data, loss = rollouts.data, BaselineLoss(rewards, [self.baseline] * len(rewards))
            gradient = self.learner.forward_backward_custom(data, loss)
        else:
            data = weighted(rollouts.data, rollouts.group_worth.tolist())
            if not data:
                return Update(0.0, 0.0)
            gradient = self.learner.forward_backward(data, "importance_sampling")
        step = self.learner.optim_step(self.plan.adamw(learning_rate))
        output = gradient.result()
        step.result()
        return Update(loss_of(output) / len(data), largest_logprob_gap(data, output))
