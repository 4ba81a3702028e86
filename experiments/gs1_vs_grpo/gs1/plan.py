"""What is run: the spec's plan, and what the command line changes of it, which is stated as deviations."""

import argparse
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tinker
from tinker.types import AdamParams

from research_exchange.harness import HarnessError, Item, adamw_client
from research_exchange.harness.tasks import TASKS, Task, task_named

from .baselines import Mode, Similarity

__all__ = ["Arm", "Options", "Plan", "options"]


@dataclass(frozen=True)
class Arm:
    """One side of the comparison."""

    name: str
    role: str
    mode: Mode
    group_size: int
    groups_per_batch: int
    """Prompts of a step."""
    steps: int
    seed: int
    """Of the sampling."""
    init_seed: int
    """Of the adapter."""
    tau: float
    """Of the similarity weights; without effect in an arm that has none."""

    @property
    def rollouts_per_step(self) -> int:
        return self.group_size * self.groups_per_batch

    def batch(self, problems: Sequence[Item], step: int) -> list[Item]:
        """The problems of a step: the next ones of the fixed order, from the beginning again where it ends."""
        start = step * self.groups_per_batch
        return [problems[number % len(problems)] for number in range(start, start + self.groups_per_batch)]

    def sampling_seed(self, step: int) -> int:
        """Of the first prompt of a step; each further prompt takes the next number."""
        return 1_000_000 * self.seed + 1_000 * step


@dataclass(frozen=True)
class Options:
    """What the command line says; None where it says nothing."""

    base_url: str | None
    model: str | None
    lora_rank: int | None
    lr: float | None
    max_tokens: int | None
    steps: int | None
    rollouts_per_step: int | None
    seed: int | None
    advantage_mode: Mode | None
    tau: float | None
    task: str | None
    eval_items: int | None
    gsm8k: Path | None
    """A folder with GSM8K; None to download it."""
    log_path: Path | None
    """Where state is kept; None for the run's own folder."""
    measure_base: bool
    similarity_table: bool
    spec: Path


@dataclass(frozen=True)
class Plan:
    """Everything that defines the experiment."""

    base_model: str
    lora_rank: int
    optimizer: Mapping[str, float]
    """Every setting of AdamW, the learning rate included, fixed when a client is created."""
    arms: tuple[Arm, ...]
    similarity: Similarity
    task: str
    eval_items: int
    max_tokens: int | None
    """Of an answer; None for the task's own."""
    seeds: tuple[int, ...]
    """Those that the decision rule schedules; it decides nothing about another one."""

    @classmethod
    def of_spec(cls, spec: Mapping[str, Any]) -> "Plan":
        """The plan as the spec writes it.

        Raises:
            HarnessError: its arms disagree where there is one value for all of them.
        """
        arms: list[Mapping[str, Any]] = spec["arms"]
        treatment = next(arm for arm in arms if arm["role"] == "treatment")
        started = [arm for group in spec["restoration_preflight"]["groups"] for arm in group["arms"]]
        optimizer = _one("optimizer_config in restoration_preflight", [arm["optimizer_config"] for arm in started])
        _one("the learning rate", [optimizer["learning_rate"], *(arm["lr"] for arm in arms if "lr" in arm)])
        vectorizer = _one("vectorizer", [arm["vectorizer"] for arm in arms if "vectorizer" in arm])
        return cls(
            base_model=spec["base_model"],
            lora_rank=spec["lora_rank"],
            optimizer=optimizer,
            arms=tuple(_arm(arm, treatment["tau"]) for arm in arms),
            similarity=Similarity(vectorizer["arguments"]),
            task=spec["dataset"]["name"],
            eval_items=spec["eval"]["n_examples"],
            max_tokens=_one("max_tokens", [arm["max_tokens"] for arm in arms]),
            seeds=tuple(spec["decision_rule"]["seeds"]),
        )

    @property
    def treatment(self) -> Arm:
        return next(arm for arm in self.arms if arm.role == "treatment")

    @property
    def baseline(self) -> Arm:
        return next(arm for arm in self.arms if arm.role == "baseline")

    def changed(self, options: Options) -> "Plan":
        """This plan with what the command line changes, but for the mode; see `trained`.

        Raises:
            HarnessError: the rollouts of a step do not divide into an arm's groups, or the spec schedules no such seed.
        """
        if options.seed is not None and options.seed not in self.seeds:
            scheduled = ", ".join(map(str, self.seeds))
            raise HarnessError(
                f"--seed: expected a seed that the spec's decision rule schedules, {scheduled}; found {options.seed}."
            )
        rate = self.optimizer["learning_rate"] if options.lr is None else options.lr
        is_other_task = options.task not in (None, self.task)
        return replace(
            self,
            base_model=options.model or self.base_model,
            lora_rank=options.lora_rank or self.lora_rank,
            optimizer={**self.optimizer, "learning_rate": rate},
            arms=tuple(_changed(arm, options) for arm in self.arms),
            task=options.task or self.task,
            eval_items=options.eval_items or self.eval_items,
            max_tokens=options.max_tokens or (None if is_other_task else self.max_tokens),
        )

    def trained(self, mode: Mode | None) -> tuple[Arm, ...]:
        """The arms to train: all; those of a mode; or the treatment with the mode of a control in place of its own."""
        if mode is None:
            return self.arms
        of_mode = tuple(arm for arm in self.arms if arm.mode is mode)
        return of_mode or (replace(self.treatment, mode=mode),)

    def load_task(self, gsm8k: Path | None) -> Task:
        return task_named(self.task, evaluation=self.eval_items, max_tokens=self.max_tokens, gsm8k_folder=gsm8k)

    def adamw(self) -> AdamParams:
        return AdamParams(**self.optimizer)

    def new_learner(self, service: tinker.ServiceClient, arm: Arm) -> tinker.TrainingClient:
        """A client whose optimizer is fixed, its learning rate too."""
        return adamw_client(service, self.base_model, rank=self.lora_rank, seed=arm.init_seed, settings=self.optimizer)

    def deviations(self, written: "Plan", options: Options) -> dict[str, Any]:
        """What differs from the plan as the spec writes it, in the words of the Exchange's contract (R-075, R-078)."""
        was, now = _settings(written), _settings(self)
        stated = [_deviation(name, was[name], now[name]) for name in was if was[name] != now[name]]
        trained = self.trained(options.advantage_mode)
        left_out = [arm.name for arm in self.arms if arm.name not in {each.name for each in trained}]
        if left_out:
            stated.append(_deviation("arms", "all of the spec", f"without {', '.join(left_out)}"))
        replaced = [arm for arm in trained if arm not in self.arms]
        if replaced:
            stated.append(_deviation("objective", self.treatment.mode, replaced[0].mode))
        instead = [f"one training with the baseline {replaced[0].mode}, by itself"] if replaced else []
        instead += [f"the task {self.task}"] if self.task != written.task else []
        tested = f"The experiment with {' and '.join(instead)}." if instead else ""
        return {"deviations": stated, "original_hypothesis_tested": not instead, "tested_instead": tested}


def options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; every default is the spec's."""
    parser = argparse.ArgumentParser(
        description="GS1 against GRPO: both arms of the spec, one after the other. What a flag changes is a deviation."
    )
    parser.add_argument("--base_url", help="of the training service, else TINKER_BASE_URL")
    parser.add_argument("--model", help="base model")
    parser.add_argument("--lora_rank", type=_count)
    parser.add_argument("--lr", type=_positive, help="learning rate of AdamW")
    parser.add_argument("--max_tokens", type=_count, help="of an answer")
    parser.add_argument("--steps", type=_count, help="optimizer steps of an arm")
    parser.add_argument("--rollouts_per_step", type=_count)
    parser.add_argument("--seed", type=int, help="of adapter and sampling, one of the decision rule's")
    parser.add_argument("--advantage_mode", type=Mode, choices=list(Mode), help="train the arms of this mode alone")
    parser.add_argument("--tau", type=_positive, help="temperature of the similarity weights")
    parser.add_argument("--task", choices=sorted(TASKS))
    parser.add_argument("--eval_items", type=_count, help="problems held out")
    parser.add_argument(
        "--gsm8k",
        type=Path,
        default=os.environ.get("GSM8K") or None,
        help="folder with train.jsonl and test.jsonl, else that of GSM8K; without either they are downloaded",
    )
    parser.add_argument("--log_path", type=Path, help="folder for what an interrupted run goes on from")
    alone = parser.add_argument_group("to look at something by itself, without a run")
    alone.add_argument("--spec", type=Path, default=Path(__file__).parents[1] / "spec.json", help="whose plan it is")
    alone.add_argument("--measure_base", action="store_true", help="print the base model's accuracy")
    alone.add_argument(
        "--similarity_table", action="store_true", help="print what each temperature makes of the prompts"
    )
    return Options(**vars(parser.parse_args(arguments)))


def _one(setting: str, values: Sequence[Any]) -> Any:
    """What all arms have."""
    different = [value for number, value in enumerate(values) if value not in values[:number]]
    if len(different) > 1:
        found = " and ".join(map(str, different))
        raise HarnessError(
            f"The spec's arms disagree about {setting}: expected one value for all of them, found {found}."
        )
    return different[0]


def _count(value: str) -> int:
    """At least 1, so that an option of None is one that was not given."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, found {value!r}")
    return int(value)


def _positive(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {value!r}")
    return number


def _arm(spec: Mapping[str, Any], tau: float) -> Arm:
    return Arm(
        name=spec["name"],
        role=spec["role"],
        mode=Mode(spec["advantage_mode"]),
        group_size=spec["group_size"],
        groups_per_batch=spec["groups_per_batch"],
        steps=spec["steps"],
        seed=spec["seed"],
        init_seed=spec["init_seed"],
        tau=spec.get("tau", tau),
    )


def _changed(arm: Arm, options: Options) -> Arm:
    rollouts = options.rollouts_per_step or arm.rollouts_per_step
    if rollouts % arm.group_size:
        raise HarnessError(
            f"--rollouts_per_step {rollouts} does not divide into groups of {arm.group_size}, which {arm.name} has."
        )
    return replace(
        arm,
        groups_per_batch=rollouts // arm.group_size,
        steps=options.steps or arm.steps,
        seed=arm.seed if options.seed is None else options.seed,
        init_seed=arm.init_seed if options.seed is None else options.seed,
        tau=options.tau or arm.tau,
    )


def _settings(plan: Plan) -> dict[str, Any]:
    """By the names that deviations have."""
    return {
        "model": plan.base_model,
        "lora_rank": plan.lora_rank,
        "learning_rate": plan.optimizer["learning_rate"],
        "endpoint": plan.task,
        "evaluator": plan.eval_items,
        "max_tokens": "the task's own" if plan.max_tokens is None else plan.max_tokens,
        "steps": _of_all(arm.steps for arm in plan.arms),
        "effective_batch": _of_all(arm.rollouts_per_step for arm in plan.arms),
        "seed": _of_all(arm.seed for arm in plan.arms),
        "tau": plan.treatment.tau,
    }


def _of_all(values: Iterable[int]) -> int | list[int]:
    """One number where every arm has it."""
    each = list(values)
    return each[0] if len(set(each)) == 1 else each


def _deviation(field: str, original: object, effective: object) -> dict[str, str]:
    reason = "Asked for on the command line of gs1_vs_grpo.py."
    return {"field": field, "original": str(original), "effective": str(effective), "reason": reason}
