"""One training: answers from weights some steps old, the arm's loss, evaluations and checkpoints on the way."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import AdamParams, Datum, SampledSequence

from research_exchange.harness import (
    ArmScore,
    Batch,
    Checkpoints,
    Evaluator,
    HarnessError,
    Item,
    Task,
    adamw_client,
    loss_of,
    sample_groups,
    stability_signals,
    work_folder,
)
from research_exchange.harness.service import rest_client

from .losses import Kind, Objective, Weight, head_datum
from .plan import Plan

__all__ = ["Point", "Rollouts", "Step", "Training", "adamw", "new_learner", "sample"]


class Point(NamedTuple):
    """One training of the comparison."""

    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.arm}-seed{self.seed}"


@dataclass(frozen=True)
class Rollouts:
    """The graded answers to one batch."""

    rewards: NDArray[np.float64]
    """[problems, answers per problem], 1 where the answer is right."""
    data: list[Datum]
    """The answers that are worth anything, ready to learn from; in a group rewarded all alike none is."""
    sequences: list[SampledSequence]
    """All answers."""
    tokens: int
    """Of all prompts and answers."""


def sample(
    sampler: tinker.SamplingClient, tokenizer: Any, task: Task, batch: Sequence[Item], plan: Plan, seed: int
) -> Rollouts:
    """A group of answers to each problem, each worth its reward less the mean of its group."""
    prompts = [tokenizer.encode(task.prompt(problem)) for problem in batch]
    groups = sample_groups(
        sampler,
        prompts,
        group_size=plan.group_size,
        max_tokens=task.max_tokens,
        stop=task.stop,
        seed=seed,
        topk=plan.top_k,
    )
    rewards = np.array(
        [
            [task.reward(tokenizer.decode(answer.tokens), problem) for answer in group]
            for problem, group in zip(batch, groups, strict=True)
        ]
    )
    worth = rewards - rewards.mean(axis=1, keepdims=True)
    answers = [
        (prompt, answer, float(value))
        for prompt, group, row in zip(prompts, groups, worth, strict=True)
        for answer, value in zip(group, row, strict=True)
    ]
    return Rollouts(
        rewards=rewards,
        data=[
            head_datum(prompt, answer, value, vocabulary=len(tokenizer)) for prompt, answer, value in answers if value
        ],
        sequences=[answer for _, answer, _ in answers],
        tokens=sum(len(prompt) + len(answer.tokens) for prompt, answer, _ in answers),
    )


class Step(NamedTuple):
    """What one step showed."""

    number: int
    """From 1."""
    rollouts: Rollouts
    signals: dict[str, float]


@dataclass
class Training:
    """One arm with one seed, from its last checkpoint on.

    What a loop remembers between its steps goes into the notes of its checkpoints: where the weights of the last steps
    were saved, because later answers come from them, the accuracies so far, and the signals of every step.
    """

    point: Point
    plan: Plan
    task: Task
    service: tinker.ServiceClient
    start: Callable[[], tinker.TrainingClient]
    """The client as it is before the next step; called only where there is one."""
    tokenizer: Any
    batches: Sequence[Batch[Item]]
    evaluator: Evaluator | None = None
    """None in a pilot, which nothing is asked in."""
    checkpoints: Checkpoints | None = None
    """None in a pilot, which nothing is kept of."""
    snapshots: dict[int, str] = field(default_factory=dict)
    """Step to the path of the sampler weights before it."""
    curve: dict[int, float] = field(default_factory=dict)
    """Step to the accuracy after so many steps."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The signals of every step."""

    def __post_init__(self) -> None:
        if self.checkpoints is None or self.checkpoints.step == 0:
            return
        notes = self.checkpoints.notes
        if not notes:
            raise HarnessError(
                f"The checkpoint of {self.point} at step {self.checkpoints.step} is on record without its notes, which "
                "name the older weights to sample from; go on in the folder that the run began in, or start a new run."
            )
        self.snapshots = {int(step): path for step, path in notes["snapshots"].items()}
        self.curve = {int(step): accuracy for step, accuracy in notes["curve"].items()}
        self.rows = list(notes["rows"])

    @cached_property
    def learner(self) -> tinker.TrainingClient:
        return self.start()

    @property
    def is_done(self) -> bool:
        return self.checkpoints is not None and self.checkpoints.step >= len(self.batches)

    @property
    def objective(self) -> Objective:
        return Objective(Kind(self.plan.arms[self.point.arm]), Weight(self.plan.weight))

    def steps(self) -> Iterator[Step]:
        """The steps that are left; yields each as it is done, evaluated and kept where it is time to."""
        first = self.checkpoints.step if self.checkpoints else 0
        for number in range(first, len(self.batches)):
            done = self._step(number)
            self.rows.append({"arm": self.point.arm, "seed": self.point.seed, "step": done.number, **done.signals})
            if done.number % self.plan.evaluate_every == 0 or done.number == len(self.batches):
                self._evaluate(done.number)
                self._keep(done.number)
            yield done

    def score(self, step: int) -> ArmScore:
        """The answers to the held-out problems after so many steps; asked once, and then read from the folder."""
        assert self.evaluator is not None
        path = self._snapshot(step)
        sampler = self.service.create_sampling_client(model_path=path).result()
        return self.evaluator.score(
            sampler,
            self.tokenizer,
            arm=self.point.arm,
            seed=self.point.seed,
            checkpoint=path,
            folder=work_folder(),
        )

    def _step(self, number: int) -> Step:
        """Answers from weights `stale_steps` steps old, or from the first ones, and one step of AdamW on them."""
        self._snapshot(number)
        old = self.snapshots[max(0, number - self.plan.stale_steps)]
        sampler = self.service.create_sampling_client(model_path=old).result()
        seed = 1_000_000 * self.point.seed + 1_000 * number
        rollouts = sample(sampler, self.tokenizer, self.task, self.batches[number].items, self.plan, seed)
        signals = stability_signals(
            rewards=rollouts.rewards, sequences=rollouts.sequences, vocabulary=len(self.tokenizer)
        )
        return Step(number + 1, rollouts, signals | self._update(rollouts.data))

    def _update(self, data: list[Datum]) -> dict[str, float]:
        """One gradient of the arm's loss and one step; neither without anything to learn from."""
        if not data:
            return {"loss": 0.0}
        gradient = self.learner.forward_backward_custom(data, self.objective)
        step = self.learner.optim_step(adamw(self.plan))
        output, applied = gradient.result(), step.result().metrics or {}
        seen = {name: output.metrics[name] for name in SEEN if name in output.metrics}
        norm = {"grad_norm": applied["grad_norm"]} if "grad_norm" in applied else {}
        return {"loss": loss_of(output) / max(seen.get("trained_tokens", 1.0), 1.0), **seen, **norm}

    def _snapshot(self, step: int) -> str:
        if step not in self.snapshots:
            saved = self.learner.save_weights_for_sampler(f"{self.point}-before-{step}").result()
            self.snapshots[step] = saved.path
        return self.snapshots[step]

    def _evaluate(self, step: int) -> None:
        if self.evaluator is not None:
            self.curve[step] = self.score(step).mean

    def _keep(self, step: int) -> None:
        """A checkpoint, and no more snapshots than the steps from here on sample from."""
        if self.checkpoints is None:
            return
        wanted = {number: path for number, path in self.snapshots.items() if number >= step - self.plan.stale_steps}
        self.checkpoints.save(self.learner, step, snapshots=wanted, curve=self.curve, rows=self.rows)
        rest = rest_client(self.service)
        for number in self.snapshots.keys() - wanted.keys():
            rest.delete_checkpoint_from_tinker_path(self.snapshots.pop(number)).result()


SEEN = (
    "trained_tokens",
    "logprob_gap",
    "largest_logprob_gap",
    "head_mass_sampler",
    "head_mass_learner",
    "sum_abs_c",
    "truncated",
)
"""What an `Objective` measures."""


def adamw(plan: Plan) -> AdamParams:
    return AdamParams(learning_rate=plan.learning_rate, **plan.optimizer)


def new_learner(service: tinker.ServiceClient, plan: Plan) -> tinker.TrainingClient:
    """A client whose optimizer is fixed but for its learning rate."""
    return adamw_client(service, plan.base_model, rank=plan.lora_rank, seed=0, settings=plan.optimizer)
