"""What follows where the activation gate stops the run: the likely cause, a diagnosis on record, a revised spec."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research_exchange.activation import activation_problems
from research_exchange.client import GateReading, Run
from research_exchange.documents.spec import Spec
from research_exchange.harness import (
    Case,
    Cause,
    Diagnosis,
    Drift,
    Schedule,
    deterministic_case,
    input_exhibit,
    policy_drift,
)
from research_exchange.harness.tasks import Task

from .baselines import Mode, TauRow, baseline_weights, largest_tau_within, loo_advantages, tau_table, uniform_weights
from .pilot import Pilot
from .plan import Plan

__all__ = ["Failed", "Revision", "diagnose", "failed_checks", "planned_table", "revised_spec", "revision"]

CONTRIBUTORS = "gs1_effective_contributors_median"
DISTANCE = "gs1_mean_abs_baseline_minus_uniform_loo"
REWARD = "batch_mean_reward_pilot"
MODEL = "executed_base_model"
REGIME = {CONTRIBUTORS, DISTANCE, REWARD}
"""Checks that a correct script can fail: they are about what it was given to do."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Failed:
    """A check of the spec that the pilot did not meet."""

    metric: str
    value: float | str
    check: Json

    @property
    def is_below(self) -> bool:
        return isinstance(self.value, float | int) and self.value < self.check.get("min", -np.inf)

    def __str__(self) -> str:
        allowed = self.check.get("one_of") or f"{self.check.get('min', '-∞')} to {self.check.get('max', '∞')}"
        value = f"{self.value:.4g}" if isinstance(self.value, float) else self.value
        return f"{self.metric} is {value} against an allowed {allowed}"


@dataclass(frozen=True)
class Revision:
    """A temperature that keeps the weights of the planned prompts within the spec's range."""

    tau: float
    rows: tuple[TauRow, ...]


def failed_checks(spec: Json, values: Mapping[str, float | str]) -> list[Failed]:
    """What to explain, by the Exchange's own rule and in the order of the spec; what counts is what it recorded."""
    problems = activation_problems(Spec.parse(json.dumps(spec).encode()), {"values": dict(values)})
    unmet = {problem.path for problem in problems}
    return [
        Failed(check["metric"], values.get(check["metric"], "not measured"), check)
        for check in spec["activation_gate"]["checks"]
        if f"activation_calibration.values.{check['metric']}" in unmet
    ]


def planned_table(plan: Plan, task: Task) -> tuple[TauRow, ...]:
    """Over the prompts that the treatment is going to read, without any answer or reward."""
    arm = plan.treatment
    batches = [[problem.question for problem in arm.batch(task.training, step)] for step in range(arm.steps)]
    return tuple(tau_table(batches, plan.similarity))


def revision(spec: Json, plan: Plan, task: Task) -> Revision | None:
    """The largest temperature of the table that holds in every planned step; None where there is none."""
    rows = planned_table(plan, task)
    [check] = [check for check in spec["activation_gate"]["checks"] if check["metric"] == CONTRIBUTORS]
    tau = largest_tau_within(rows, check.get("min", 0.0), check.get("max", np.inf))
    return None if tau is None else Revision(tau, rows)


def revised_spec(spec: Json, tau: float) -> dict[str, Any]:
    """The spec with another temperature wherever it names one: in the arm, the method and the command."""
    revised: dict[str, Any] = json.loads(json.dumps(spec))
    for arm in revised["arms"]:
        if "tau" in arm:
            was, arm["tau"] = arm["tau"], tau
            revised["method"] = revised["method"].replace(f"tau = {was:g}", f"tau = {tau:g}")
            revised["command"] = revised["command"].replace(f"--tau {was:g}", f"--tau {tau:g}")
    return revised


def diagnose(run: Run, gate: GateReading, plan: Plan, task: Task, piloted: Pilot) -> Diagnosis:
    """Explain the stop, retain the record and, where another temperature mends it, the revised spec."""
    spec = run.spec()
    failed = failed_checks(spec, piloted.values)
    mended = revision(spec, plan, task) if any(each.metric == CONTRIBUTORS for each in failed) else None
    name = None
    if mended is not None:
        name = "revised.spec.json"
        run.evidence(
            name, "diagnostic", json.dumps(revised_spec(spec, mended.tau), indent=2, ensure_ascii=False) + "\n"
        )
        run.evidence(
            "tau-table.json", "diagnostic", json.dumps([row._asdict() for row in mended.rows], indent=2) + "\n"
        )
    last = piloted.treatment.updates[-1]
    diagnosis = Diagnosis(
        gate=gate,
        cause=_cause({each.metric for each in failed}),
        explanation="; ".join(f"{each}: {_likely_cause(each, plan)}" for each in failed),
        next_diagnostic=" ".join(_next(each, mended, name) for each in failed),
        cases=_cases(plan),
        inputs=(input_exhibit(last.data, "pilot-input"),),
        drift=_drift(piloted),
        schedule=Schedule(
            optimizer_calls=len(piloted.treatment.updates), disjoint_minibatches=1, epochs=1, intervening_updates=0
        ),
        gaps=("Whether similar prompts are answered alike was not looked at: that would take rewards.",),
    )
    diagnosis.retain(run)
    return diagnosis


def _cause(metrics: set[str]) -> Cause:
    if metrics - REGIME - {MODEL}:
        return Cause.DEFECT
    return Cause.INACTIVE_REGIME if metrics & REGIME else Cause.WRONG_REFERENCE


def _likely_cause(failed: Failed, plan: Plan) -> str:
    tau = plan.treatment.tau
    if failed.metric == CONTRIBUTORS and failed.is_below:
        return f"at tau {tau:g} the weights hang on single neighbours"
    if failed.metric == CONTRIBUTORS:
        return f"most prompts share hardly a word, and tau {tau:g} makes of cosines that small nearly equal weights"
    if failed.metric == DISTANCE:
        return "with weights nearly equal, or rewards nearly alike, the similarity changes next to nothing"
    if failed.metric == REWARD and failed.is_below:
        return "the model solves too few of these problems to learn from"
    if failed.metric == REWARD:
        return "the model solves nearly all of these problems, so there is little left to learn"
    if failed.metric == MODEL:
        return "another model was asked for, or served, than the spec names"
    return "the script did not do what the spec says"


def _next(failed: Failed, mended: Revision | None, name: str | None) -> str:
    if failed.metric == CONTRIBUTORS and mended is not None:
        return f"Run {name}, whose only change is tau {mended.tau:g}, from the prompts alone (tau-table.json)."
    if failed.metric == CONTRIBUTORS:
        return "Revise the vectoriser: no temperature of the table holds in every planned step."
    if failed.metric == DISTANCE:
        return f"See whether {DISTANCE} holds with the other checks mended."
    if failed.metric == REWARD:
        return "Take problems of which the base model solves between a tenth and nine tenths; --measure_base tells."
    if failed.metric == MODEL:
        return "Run the spec's own model, or save a spec of the other one."
    return f"Find out where {failed.metric} comes from before anything is run again."


CLUSTERS = ("red apples and pears", "red apples and plums", "slow goods trains", "slow goods trams")
"""Two pairs of texts: alike within, different between."""


def _cases(plan: Plan) -> tuple[Case, ...]:
    """Prompts on which the similarity has to change the gradient, and prompts on which it must not."""
    rewards = np.array([1.0, 1.0, 0.0, 0.0])
    given = [np.array([-1.0])] * len(rewards)

    def derivative(weights: NDArray[np.float64]) -> Any:
        def of(_: Sequence[NDArray[np.float64]]) -> Sequence[NDArray[np.float64]]:
            """At equal policies d loss / d logprob is minus the advantage."""
            return [np.array([-value]) for value in loo_advantages(rewards, weights)]

        return of

    def case(name: str, texts: Sequence[str], must_activate: bool) -> Case:
        weights = baseline_weights(Mode.GS1, texts, plan.similarity, plan.treatment.tau, seed=(0, 0))
        enabled, disabled = derivative(weights), derivative(uniform_weights(len(texts)))
        return deterministic_case(
            name, given, enabled=enabled, disabled=disabled, must_activate=must_activate, threshold=1e-9
        )

    return (
        case("two pairs of prompts alike, each pair rewarded alike", CLUSTERS, must_activate=True),
        case("one prompt four times", [CLUSTERS[0]] * len(rewards), must_activate=False),
    )


def _drift(piloted: Pilot) -> Drift:
    last = piloted.treatment.updates[-1]
    return policy_drift(last.data, last.output, threshold=float(np.log(1.2)))
