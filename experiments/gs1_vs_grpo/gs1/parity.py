"""The correctness preflight: the script's GRPO is the stock one, its GS1 is that of `reference.py`.

Both are measured on one fixed input, answers of both arms' first pilot steps at the weights after the last, so that the
learner is not the sampler any more. Each side is worth nothing where the other one is looked at.
"""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import Datum

from research_exchange.client import GateReading, Run
from research_exchange.harness import (
    CorrectnessPreflight,
    FixedState,
    HarnessError,
    LossPath,
    ReferenceLoss,
    pinned_module,
    revision_of,
    service_client,
)

from .baselines import Mode
from .pilot import Pilot
from .plan import Arm, Plan
from .rollouts import Rollouts, policy_data, worth

__all__ = ["REFERENCE", "SDK_REVISION", "check_parity", "cookbook_data", "stock_data"]

REFERENCE = Path(__file__).parents[1] / "reference.py"
SDK_REVISION = f"importance_sampling of tinker {tinker.__version__}"
COOKBOOK = "tinker-cookbook "
CHECKED = 24
"""Answers of each arm, at most: every one of them is also sent by itself."""


def check_parity(run: Run, plan: Plan, piloted: Pilot) -> GateReading:
    """Measure every path of the spec's plan and ask whether the full training may start."""
    [path] = run.spec()["correctness_preflight"]["paths"]
    reference = pinned_module(REFERENCE, path["reference_revision"])
    grouped = _groups_with_signal(piloted.baseline.rollouts[0], CHECKED // piloted.baseline.arm.group_size)
    single = _right_and_wrong(piloted.treatment.rollouts[0], CHECKED)
    size, others = len(grouped.pairs), len(single.pairs)
    of_grpo = [*_advantages(grouped, piloted.baseline.arm, plan), *[0.0] * others]
    of_gs1 = [*[0.0] * size, *_advantages(single, piloted.treatment.arm, plan)]
    characters = plan.similarity.characters

    def data(values: Sequence[float]) -> list[Datum]:
        return policy_data(grouped, values[:size]) + policy_data(single, values[size:])

    def in_double(logprobs: Sequence[NDArray[np.float64]]) -> ReferenceLoss:
        rewards = single.rewards.ravel().tolist()
        values = reference.advantages(single.texts, rewards, piloted.treatment.arm.tau, characters)
        answers = [answer for _, answer in single.pairs]
        learner = [
            row[row.size - len(answer.tokens) :].tolist() for row, answer in zip(logprobs[size:], answers, strict=True)
        ]
        found = reference.loss_and_gradient(learner, [list(map(float, a.logprobs or ())) for a in answers], values)
        derivative = [np.zeros_like(row) for row in logprobs]
        for row, answer in zip(derivative[size:], found.gradient, strict=True):
            row[row.size - len(answer) :] = answer
        return ReferenceLoss(found.loss, derivative)

    check = CorrectnessPreflight(
        run,
        FixedState(service_client, piloted.treatment.checkpoint),
        data([1.0] * (size + others)),
        description=f"{size} answers of GRPO and {others} of GS1 from first pilot steps, at the weights after the last",
        implementation=revision_of(*sorted(Path(__file__).parent.glob("*.py"))),
        precision="float32, compared in float64",
        normalization="summed over the tokens of all answers",
    )
    stock = stock_data(path["baseline_revision"], grouped) + policy_data(single, [0.0] * others)
    check.measure(
        LossPath(
            id=path["id"],
            stock=lambda client, _: client.forward_backward(stock, "importance_sampling"),
            disabled=lambda client, _: client.forward_backward(data(of_grpo), "importance_sampling"),
            enabled=lambda client, _: client.forward_backward(data(of_gs1), "importance_sampling"),
            unpacked=lambda index: (
                lambda client, _: client.forward_backward([data(of_gs1)[index]], "importance_sampling")
            ),
            reference=in_double,
            baseline_revision=path["baseline_revision"],
            reference_revision=revision_of(REFERENCE),
        )
    )
    run.evidence(REFERENCE.name, "probe", REFERENCE)
    return check.publish()


def stock_data(revision: str, grouped: Rollouts) -> list[Datum]:
    """What the stock loop sends for these groups, by the revision that the spec pins.

    Raises:
        HarnessError: that is none of the two that this script can run, or it is not installed.
    """
    if revision == SDK_REVISION:
        means = [sum(group) / len(group) for group in grouped.rewards.tolist()]
        values = [
            reward - mean for group, mean in zip(grouped.rewards.tolist(), means, strict=True) for reward in group
        ]
        return policy_data(grouped, values)
    if revision.startswith(COOKBOOK):
        version = revision.removeprefix(COOKBOOK).split()[0]
        _must_be_installed(version)
        return cookbook_data(grouped)
    raise HarnessError(
        f"The spec pins the stock loss as {revision!r}; this script can run {SDK_REVISION!r} or a tinker-cookbook."
    )


def cookbook_data(grouped: Rollouts) -> list[Datum]:
    """By tinker-cookbook's own functions, as its `rl/train.py` calls them."""
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
    from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition

    groups = []
    for prompt, answers, rewards in zip(grouped.prompts, grouped.groups, grouped.rewards.tolist(), strict=True):
        observed = tinker.ModelInput.from_ints(list(prompt))
        trajectories = []
        for answer, reward in zip(answers, rewards, strict=True):
            action = TokensWithLogprobs(list(map(int, answer.tokens)), list(map(float, answer.logprobs or ())))
            step = Transition(ob=observed, ac=action, reward=reward, episode_done=True)
            trajectories.append(Trajectory(transitions=[step], final_ob=tinker.ModelInput.empty()))
        groups.append(TrajectoryGroup(trajectories, [0.0] * len(trajectories), [{} for _ in trajectories]))
    data, _ = assemble_training_data(groups, compute_advantages(groups))
    return [
        Datum(
            model_input=datum.model_input,
            loss_fn_inputs={name: values for name, values in datum.loss_fn_inputs.items() if name != "mask"},
        )
        for datum in data
    ]


def _groups_with_signal(rollouts: Rollouts, most: int) -> Rollouts:
    """Those whose rewards differ most; groups rewarded alike have a gradient of nothing, which shows nothing."""
    by_spread = np.argsort(-rollouts.rewards.std(axis=1), kind="stable")
    return rollouts.chosen(by_spread[: max(most, 1)].tolist())


def _right_and_wrong(rollouts: Rollouts, most: int) -> Rollouts:
    """As many right answers as wrong ones, as far as there are so many of both."""
    by_reward = np.argsort(rollouts.rewards[:, 0], kind="stable").tolist()
    half = min(most, len(by_reward)) // 2
    return rollouts.chosen([*by_reward[:half], *by_reward[-half:]])


def _advantages(rollouts: Rollouts, arm: Arm, plan: Plan) -> list[float]:
    if arm.mode not in (Mode.GRPO, Mode.GS1):
        raise HarnessError(f"{arm.mode} has no reference; the arms that are compared are {Mode.GRPO} and {Mode.GS1}.")
    values: list[float] = worth(rollouts, arm, plan, step=0).advantages.tolist()
    return values


def _must_be_installed(version: str) -> None:
    try:
        found = metadata.version("tinker-cookbook")
    except metadata.PackageNotFoundError:
        found = "none"
    if found != version:
        raise HarnessError(
            f"The spec pins tinker-cookbook {version} as the stock loop, and installed is {found}: "
            f"pip install tinker-cookbook=={version}"
        )
