"""The bundled comparison of two trained arms: its spec, its script and its reference say the same."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from tinker.types import SampledSequence

from experiments.arithmetic.comparing import plan as planned
from experiments.arithmetic.comparing import preflights
from experiments.arithmetic.comparing.training import BaselineLoss, Rollouts
from experiments.arithmetic.paired import PILOT_STEPS
from experiments.arithmetic.paired_reference import loss_and_derivative
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import CHECKS, check_applicability
from research_exchange.harness import policy_datum, revision_of, weighted
from research_exchange.lint import Level, lint

FILE = preflights.REFERENCE.with_name("paired.spec.json")
SPEC: dict[str, Any] = json.loads(FILE.read_text())


def rollouts(rewards: list[list[float]], *, drift: float = 0.0) -> Rollouts:
    """Answers of two tokens each, whose sampler is off by `drift` nats."""
    tokens, sampled = np.array([7, 8], dtype=np.int32), np.array([-1.0 - drift, -2.0], dtype=np.float32)
    answers = [SampledSequence("stop", f"s{number}", tokens, sampled) for number in range(4)]
    data = [policy_datum([1, 2, 3], answer, 1.0) for answer in answers]
    return Rollouts(np.array(rewards), data, tokens=0)


LEARNED = [torch.tensor([-9.0, -9.0, -1.0, -2.0]) for _ in range(4)]
REWARDS = [[1.0, 0.0], [1.0, 1.0]]


def test_the_numbers_of_the_spec_agree_with_each_other_and_the_script() -> None:
    plan, problems = planned.Plan.of_spec(SPEC), planned.Problems.of_spec(SPEC)
    assert SPEC["batch_size"] == plan.groups_per_batch * plan.group_size
    assert SPEC["eval"]["n_examples"] == len(problems.confirmation)
    assert SPEC["dataset"]["n_examples"] == plan.steps * plan.groups_per_batch
    assert SPEC["decision_rule"]["seeds"] == [plan.seed]
    assert {arm["name"] for arm in SPEC["arms"]} == {planned.GROUP, planned.RUNNING}
    one, other = (
        {key: arm[key] for key in ("steps", "groups_per_batch", "group_size", "seed")} for arm in SPEC["arms"]
    )
    assert one == other
    assert f"{plan.groups_per_batch} problems x {plan.group_size} answers" in SPEC["method"]
    assert len(problems.training) > (plan.steps + plan.warm_up_batches + PILOT_STEPS + 1) * plan.groups_per_batch


def test_r151_the_parts_of_the_problems_are_disjoint_and_all_of_them_are_right() -> None:
    problems = planned.Problems.of_spec(SPEC)
    parts = (problems.selection, problems.confirmation, problems.training)
    ids = [item.id for part in parts for item in part]
    assert len(ids) == len(set(ids)) == 100 * 99
    assert all(int(item.reference) == max(map(int, item.question.split(","))) for part in parts for item in part)


def test_r10a_the_revisions_are_those_of_the_code_that_runs() -> None:
    [path] = SPEC["correctness_preflight"]["paths"]
    assert path["reference_revision"] == revision_of(preflights.REFERENCE)
    assert path["baseline_revision"] == preflights.BASELINE_REVISION


def test_every_check_is_required_or_ruled_out_by_an_explicit_false() -> None:
    found = {check: check_applicability(SPEC, check)["status"] for check in CHECKS}
    assert {check for check, status in found.items() if status == "not_applicable"} == {"generation_audit"}
    assert set(found.values()) == {"required", "not_applicable"}
    assert Level.ERROR not in {finding.level for finding in lint(Spec.parse(FILE.read_bytes()))}


def test_with_the_treatment_off_the_custom_loss_is_the_stock_one() -> None:
    """A group's own mean as baseline: each answer is worth what importance sampling is given for it."""
    done = rollouts(REWARDS, drift=0.5)
    rewards = done.rewards.ravel().tolist()
    off = BaselineLoss(rewards, [0.5, 0.5, 1.0, 1.0])
    loss, _ = off(done.data, LEARNED)
    assert loss.item() == pytest.approx(-(0.5 - 0.5) * (math.exp(0.5) + 1))
    kept = weighted(done.data, done.group_worth.tolist())
    assert [datum.loss_fn_inputs["advantages"].to_numpy().tolist() for datum in kept] == [
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.0, -0.5, -0.5],
    ]


def test_the_custom_loss_and_its_gradient_are_the_references() -> None:
    done = rollouts(REWARDS, drift=0.25)
    rewards = done.rewards.ravel().tolist()
    learned = [each.clone().requires_grad_() for each in LEARNED]
    loss, _ = BaselineLoss(rewards, [0.25] * 4)(done.data, learned)
    gradient = torch.autograd.grad(loss, learned)
    sampled, mask = (
        [datum.loss_fn_inputs[name].to_numpy().tolist() for datum in done.data] for name in ("logprobs", "advantages")
    )
    wanted = loss_and_derivative([each.tolist() for each in LEARNED], sampled, mask, rewards, 0.25)
    assert loss.item() == pytest.approx(wanted.loss)
    for each, row in zip(gradient, wanted.derivative, strict=True):
        assert each.tolist() == pytest.approx(row)
    parts = sum(BaselineLoss(rewards, [0.25] * 4).of(i)([done.data[i]], [LEARNED[i]])[0].item() for i in range(4))
    assert parts == pytest.approx(wanted.loss)


def test_the_derivative_of_the_reference_is_that_of_its_loss() -> None:
    """By finite differences, and only where the answer is."""
    learner, sampler, mask = [[-1.0, -2.0]], [[-1.3, -2.0]], [[1.0, 0.0]]
    found = loss_and_derivative(learner, sampler, mask, [1.0], 0.4)
    moved = loss_and_derivative([[-1.0 + 1e-6, -2.0]], sampler, mask, [1.0], 0.4)
    assert (moved.loss - found.loss) / 1e-6 == pytest.approx(found.derivative[0][0], rel=1e-5)
    assert found.derivative[0][1] == 0.0


@pytest.mark.parametrize(
    ("completion", "answer"), [(" 45\n12", "45"), ("45", "45"), (" 45 \n", "45"), (" 45, 3", "45, 3"), ("", "")]
)
def test_an_answer_is_the_rest_of_the_line_without_spaces_around_it(completion: str, answer: str) -> None:
    assert planned.answer(completion) == answer


def test_an_evaluator_of_other_items_is_another_evaluator() -> None:
    problems = planned.Problems.of_spec(SPEC)
    assert planned.evaluator(problems.selection).id != planned.evaluator(problems.confirmation).id
