"""What the spec asks for, what the command line changes of it, and which arms are asked for now."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from research_exchange.harness import HarnessError

__all__ = ["Asked", "Plan", "parser"]

CENTER = {"0": "importance_sampling", "1": "score_centering", "plain": "policy_gradient"}
"""What CENTER may be, and the loss of the arm that it stands for."""
CHANGES_HYPOTHESIS = {
    "weight": "objective",
    "stale_steps": "objective",
    "top_k": "objective",
    "task": "endpoint",
}
"""Settings that the hypothesis rests on, each with the field that a deviation in it is stated under."""
EVALUATOR = ("max_tokens", "evaluation_items")
"""Settings that are one thing to the contract: a change of either is stated with both."""
OTHER_FIELDS = {"base_model": "model", "learning_rate": "lr", **dict.fromkeys(EVALUATOR, "evaluator")}
"""The contract's words for settings that go by another name here."""
SHARED = ("groups_per_batch", "group_size", "task", "max_tokens", "evaluate_every", "stale_steps", "top_k")
"""Settings that stand in every arm of a spec, with one value for all."""


@dataclass(frozen=True)
class Plan:
    """Everything that defines the trainings; all arms share it but for their loss."""

    base_model: str
    lora_rank: int
    optimizer: dict[str, float]
    """Every setting of AdamW but the learning rate, fixed when a client is created."""
    learning_rate: float
    """The same in all steps."""
    steps: int
    groups_per_batch: int
    group_size: int
    task: str
    max_tokens: int | None
    """Of an answer; None for the task's own."""
    evaluation_items: int
    evaluate_every: int
    """Steps from one evaluation, and one checkpoint, to the next."""
    stale_steps: int
    """How many steps older than the learner the weights are that answers are sampled from, in all arms."""
    top_k: int
    """Tokens in the sampler's head."""
    weight: str
    """f of the centered arm."""
    seeds: tuple[int, ...]
    arms: dict[str, str]
    """Name to loss, in the order of the spec."""

    @classmethod
    def of_spec(cls, spec: Mapping[str, Any]) -> "Plan":
        """
        Raises:
            HarnessError: the spec's arms disagree in what the script takes one value of.
        """
        centered = next(arm for arm in spec["arms"] if arm["loss"] == CENTER["1"])
        started = [arm for group in spec["restoration_preflight"]["groups"] for arm in group["arms"]]
        for name in SHARED:
            _one_for_all(name, {arm["name"]: arm.get(name) for arm in spec["arms"]})
        _one_for_all("steps", {"the spec": spec["steps"], **{arm["name"]: arm.get("steps") for arm in spec["arms"]}})
        _one_for_all("optimizer_config", {arm["name"]: arm["optimizer_config"] for arm in started})
        return cls(
            base_model=spec["base_model"],
            lora_rank=spec["lora_rank"],
            optimizer=started[0]["optimizer_config"],
            learning_rate=spec["optimizer"]["lr"],
            steps=spec["steps"],
            evaluation_items=spec["eval"]["n_examples"],
            weight=centered["weight"],
            seeds=tuple(spec["decision_rule"]["seeds"]),
            arms={arm["name"]: arm["loss"] for arm in spec["arms"]},
            **{name: centered[name] for name in SHARED},
        )

    def sizes(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """By the spec's fields, what decides how long a run takes and may differ from the spec (R-179)."""
        evaluation = {**spec["eval"], "n_examples": self.evaluation_items}
        return {"base_model": self.base_model, "steps": self.steps, "eval": evaluation}

    def changes(self, written: "Plan") -> dict[str, Any]:
        """What differs from the plan as the spec writes it, in the words of the Exchange's contract (R-075, R-078)."""
        before, after = asdict(written), asdict(self)
        changed = [each.name for each in fields(self) if before[each.name] != after[each.name]]
        instead = [f"{name} {after[name]}" for name in changed if name in CHANGES_HYPOTHESIS]
        stated = dict.fromkeys(EVALUATOR if name in EVALUATOR else (name,) for name in changed)
        return {
            "deviations": [
                {
                    "field": (CHANGES_HYPOTHESIS | OTHER_FIELDS).get(names[0], names[0]),
                    "original": ", ".join(f"{name} {before[name]}" for name in names),
                    "effective": ", ".join(f"{name} {after[name]}" for name in names),
                    "reason": "Asked for on the command line of rl_score_centering.py.",
                }
                for names in stated
            ],
            "original_hypothesis_tested": not instead,
            "tested_instead": f"The same comparison with {', '.join(instead)}." if instead else "",
        }


@dataclass(frozen=True)
class Asked:
    """What this call of the script is to do."""

    plan: Plan
    """The spec's, with what the command line changes."""
    arms: tuple[str, ...]
    """Those to train now."""
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, spec: Mapping[str, Any], given: argparse.Namespace) -> "Asked":
        """What the flags mean for a spec; a wrong value ends the script with one sentence and exit code 2."""
        changed = {name: getattr(given, name) for name in CHANGEABLE if getattr(given, name) is not None}
        if "task" in changed:
            changed.setdefault("max_tokens", None)
        plan = replace(Plan.of_spec(spec), **changed)
        for name in ("steps", "top_k", "max_tokens", "evaluation_items"):
            if (value := getattr(plan, name)) is not None and value < 1:
                parser().error(f"{name} is at least 1; found {value}.")
        if plan.stale_steps < 0:
            parser().error(f"stale_steps is 0 or more; found {plan.stale_steps}.")
        arms = [name for name, loss in plan.arms.items() if given.center is None or loss == CENTER[given.center]]
        if not arms:
            parser().error(f"The spec has no arm for CENTER={given.center}; its arms are {', '.join(plan.arms)}.")
        if given.seed is not None and given.seed not in plan.seeds:
            parser().error(f"The spec schedules the seeds {', '.join(map(str, plan.seeds))}; found SEED={given.seed}.")
        return cls(plan, tuple(arms), plan.seeds if given.seed is None else (given.seed,))


CHANGEABLE = (
    "weight",
    "stale_steps",
    "top_k",
    "learning_rate",
    "steps",
    "task",
    "max_tokens",
    "evaluation_items",
    "base_model",
)
"""Settings that have a flag of the same name."""


def parser() -> argparse.ArgumentParser:
    """The command line; CENTER and SEED are checked here too when they come from the environment."""
    options = argparse.ArgumentParser(
        prog="rl_score_centering.py",
        description="Train with and without score centering, from answers that are sampled some steps behind.",
        epilog="CENTER, SEED and GSM8K in the environment stand for the flags of the same name.",
    )
    options.add_argument(
        "--center", type=_center, default=os.environ.get("CENTER"), help="train this arm alone: 0, 1, plain"
    )
    options.add_argument("--seed", type=int, default=os.environ.get("SEED"), help="train this seed alone")
    options.add_argument("--weight", choices=["identity", "none", "tis", "mis"], help="f of the centered arm")
    options.add_argument("--stale-steps", type=int, help="age of the weights that answers are sampled from, in steps")
    options.add_argument("--top-k", type=int, help="tokens in the sampler's head")
    options.add_argument("--learning-rate", type=float)
    options.add_argument("--steps", type=int)
    options.add_argument("--task", choices=["arithmetic", "gsm8k"])
    options.add_argument("--max-tokens", type=int, help="of an answer")
    options.add_argument("--evaluation-items", type=int, help="problems that are held out and asked")
    options.add_argument("--base-model", help="in the place of the spec's")
    options.add_argument("--gsm8k", type=Path, default=os.environ.get("GSM8K"), help="the folder that GSM8K lies in")
    options.add_argument(
        "--measure-base", action="store_true", help="only score the base model on the held-out problems, outside a run"
    )
    options.add_argument(
        "--spec",
        type=Path,
        default=Path(__file__).parents[1] / "laptop.spec.json",
        help="of --measure-base, which has no run to take it from; laptop.spec.json",
    )
    return options


def _one_for_all(setting: str, values: Mapping[str, Any]) -> None:
    (first, wanted), *others = values.items()
    for name, found in others:
        if found != wanted:
            raise HarnessError(
                f"All arms share one {setting} in this script, and {first} has {wanted} where {name} has {found}; "
                "save a version of the spec with one value."
            )


def _center(value: str) -> str:
    if value not in CENTER:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(CENTER)}, found {value!r}")
    return value
