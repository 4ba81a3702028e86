"""Audits of generated tasks, as the Exchange reads them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import tinker

from research_exchange.client import Run
from research_exchange.harness import ArmScore, Comparison, Item
from research_exchange.harness.audit import Solution, audit_generated, held_out, sampling_solver
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.grading import numeric_answer
from research_exchange.harness.scores import Answer
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.comparing import evaluator, gate, new_run, with_seeds

ITEMS = [Item(f"q{number}", f"What is {number} times 100?", f"{number * 100}") for number in range(5)]
SAMPLE = 8


def spec(**contract: Any) -> dict[str, Any]:
    plain = with_seeds(0)
    audit = {"required": True, "answer_comparison": "numeric_exact", "min_sample_size": SAMPLE, **contract}
    features = plain["experiment_features"] | {"generated_training_data": True}
    return {**plain, "experiment_features": features, "generation_audit": audit}


def tasks(*, wrong: int = 0, overlapping: int = 0) -> list[dict[str, Any]]:
    """Twelve accepted tasks, of which the first few are labelled wrongly, or stand in the evaluation set."""
    rows: list[dict[str, Any]] = [
        {
            "item_id": f"t{n}",
            "prompt": ITEMS[n].question.upper() if n < overlapping else f"What is {n} plus 1?",
            "answer": f"{n + 1 + (n < wrong)}",
            "disposition": "accepted",
        }
        for n in range(12)
    ]
    others = [("t12", "rejected"), ("t13", "execution_error")]
    return rows + [{"item_id": item, "prompt": "?", "answer": "", "disposition": kind} for item, kind in others]


def solve(prompts: Sequence[str]) -> list[Solution]:
    """Adds, from the prompt alone."""
    sums = [int(prompt.split()[2]) + 1 for prompt in prompts]
    return [Solution(str(number), f"One more than {number - 1} is {number}.") for number in sums]


def audited(run: Run, rows: list[dict[str, Any]]) -> tuple[str, set[str]]:
    reading = audit_generated(run, rows, held_out(ITEMS), solve, resolver_id="a second model", seed=3)
    return reading.status, {problem["rule"] for problem in gate(run, "generation_audit")["problems"]}


def test_an_honest_audit_passes_and_its_files_are_kept(served: ServedExchange) -> None:
    run = new_run(served, spec())
    assert audited(run, tasks()) == ("passed", set())
    assert sorted(file["kind"] for file in run.record()["evidence"]) == ["generated_tasks", "generated_tasks", "report"]
    computed = gate(run, "generation_audit")["computed"]
    assert (computed["sample_size"], computed["label_errors"], computed["overlaps"]) == (SAMPLE, 0, 0)
    assert computed["counts"] == {"generated": 14, "accepted": 12, "rejected": 1, "execution_errors": 1}


def test_r195_prompts_in_the_predictions_tie_the_evaluation_set_to_what_was_scored(served: ServedExchange) -> None:
    frozen = evaluator(items=tuple(ITEMS))
    answers = tuple(Answer(i.id, "7", "7", i.reference, 0, prompt=i.question) for i in ITEMS)
    untold = tuple(replace(answer, prompt="") for answer in answers)
    for rows, tied in ((answers, True), (untold, False)):
        run = new_run(served, spec())
        audited(run, tasks())
        comparison = Comparison(run, frozen, arms=("trained", "untrained"))
        comparison.freeze()
        comparison.add(ArmScore("untrained", 0, frozen.metric, frozen.id, rows))
        assert gate(run, "generation_audit")["status"] == "passed"
        assert ("R-195" not in {flag["rule"] for flag in run.judgment()["flags"]}) == tied


def test_wrong_labels_fail_until_they_are_repaired(served: ServedExchange) -> None:
    run = new_run(served, spec())
    status, rules = audited(run, tasks(wrong=12))
    assert (status, "R-196" in rules) == ("failed", True)
    assert "R-197" not in rules, "the errors are counted as they are"
    repaired = [{**row, "item_id": f"{row['item_id']}-repaired"} for row in tasks()]
    assert audited(run, repaired) == ("passed", set())
    assert len(run.record()["evidence"]) == 5, "the evaluation set is the same file"


def test_a_prompt_of_the_evaluation_set_fails(served: ServedExchange) -> None:
    status, rules = audited(new_run(served, spec(min_sample_size=1)), tasks(overlapping=0))
    assert status == "passed", rules
    run = new_run(served, spec(min_sample_size=1))
    reading = audit_generated(
        run, tasks(overlapping=2), held_out(ITEMS), lambda prompts: [Solution("1", "so")] * len(prompts),
        resolver_id="x", seed=0,
    )  # fmt: skip
    assert reading.status == "failed"
    assert gate(run, "generation_audit")["computed"]["overlap_ids"] == ["t0", "t1"]


def test_a_model_that_knows_nothing_is_no_proof_of_labels(
    served: ServedExchange, learner: tinker.TrainingClient, tokenizer: Any
) -> None:
    """A real one, with random weights, over the wire."""
    sampler = learner.save_weights_and_get_sampling_client().result()
    ask = sampling_solver(sampler, tokenizer, prompt_template="{question} =", parser=numeric_answer, max_tokens=4)
    [first, again] = ask(["1 + 1", "1 + 1"])
    assert first == again, "greedy"
    assert first.answer == numeric_answer(first.reasoning)
    reading = audit_generated(
        new_run(served, spec()), tasks(), held_out(ITEMS), ask, resolver_id="random weights", seed=0
    )
    assert reading.status in ("failed", "unverified")
    assert not reading.may_go_on


def test_a_solver_owes_one_solution_to_each_prompt(served: ServedExchange) -> None:
    run = new_run(served, spec())
    with pytest.raises(HarnessError, match="gave 1 solutions to 8 prompts"):
        audit_generated(run, tasks(), held_out(ITEMS), lambda _: [Solution("1", "so")], resolver_id="x", seed=0)
