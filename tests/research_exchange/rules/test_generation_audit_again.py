"""What an audit found once stays found when the same run asks again, and the evaluation set stays itself (R-199)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import EvidenceFile
from research_exchange.generation_audit import plan_problems
from tests.research_exchange.rules.audited_run import (
    CONTRACT,
    EVALUATION,
    FILES,
    REPORT,
    SPEC,
    TASKS,
    TRAINED,
    flags,
    gate,
    judged,
    kept,
    lines,
    report_on,
    rules,
    running,
    unread,
)
from tests.research_exchange.rules.support import file_of, patched, spec_of
from tests.research_exchange.rules.test_generation_audit import ANYTHING

WRONG = report_on(TASKS, {"t2": "99"})
MANY = [{**TASKS[0], "item_id": f"m{i}", "prompt": f"{i}?"} for i in range(5)]


def repeated(tasks: list[Any], **more: Any) -> tuple[dict[str, Any], list[EvidenceFile]]:
    """A second audit, of other tasks under new names."""
    second = report_on(tasks, dataset_file="tasks-2.jsonl", audit_file="audit-2.json", **more)
    files = [*FILES[:2], kept(report=WRONG), lines("tasks-2.jsonl", tasks, 2), kept("audit-2.json", second, 2)]
    return second, files


def test_a_repaired_label_is_audited_again() -> None:
    """R-199"""
    for change in ({"answer": "99"}, {"disposition": "rejected"}, {"prompt": "What is 98 + 1?", "answer": "99"}):
        tasks = [{**task, **change} if task["item_id"] == "t2" else task for task in TASKS]
        second, files = repeated(tasks)
        judgment = judged([running(WRONG), running(second), TRAINED], files)
        result = judgment.gate("generation_audit")
        assert (result.status, rules(result)) == ("passed", set())
        assert "R-199" in flags(judgment), "the first audit stays visible"


def test_the_first_audit_failed() -> None:
    assert gate([running(WRONG)], [*FILES[:2], kept(report=WRONG)]).status == "failed"


@pytest.mark.parametrize(
    "tasks",
    [
        [*TASKS, *MANY],
        [{**task, "item_id": f"new-{task['item_id']}"} for task in TASKS],
        [{**task, "prompt": task["prompt"].upper() + " "} for task in TASKS],
        [{**task, "answer": task["answer"] and f"{task['answer']}.0"} for task in TASKS],
    ],
    ids=["more tasks", "new ids", "the prompts in capitals", "the label written otherwise"],
)
def test_a_known_bad_label_does_not_become_good(tasks: list[Any]) -> None:
    """R-199: not by new names, and not by a sample that misses it."""
    second, files = repeated(tasks)
    result = gate([running(WRONG), running(second), TRAINED], files)
    assert (result.status, rules(result)) == ("failed", {"R-199"})


@pytest.mark.parametrize("change", [{"sample_seed": 3}, {"samples": REPORT["samples"]}], ids=["seed", "answer"])
def test_neither_another_seed_nor_another_answer_makes_a_label_good(change: Any) -> None:
    """R-199"""
    second = report_on(TASKS, **change)
    assert gate([running(second)], [*FILES[:2], kept(report={})]).status == "passed"
    result = gate([running(WRONG), running(second)], [*FILES[:2], kept(report={})])
    assert (result.status, rules(result)) == ("failed", {"R-199"})


def test_wrong_labels_that_the_contract_allows_add_up() -> None:
    """R-199: one error in each of two samples is two."""
    spec = {**SPEC, "generation_audit": {**CONTRACT, "max_label_errors": 1}}
    first, second = report_on(TASKS, {"t2": "99"}), report_on(TASKS, {"t0": "99"})
    files = [*FILES[:2], kept(report={})]
    assert gate([running(first)], files, spec).status == "passed"
    assert rules(gate([running(first), running(second)], files, spec)) == {"R-199"}


def test_a_prompt_does_not_leave_the_evaluation_set() -> None:
    """R-199, R-191"""
    first = {**REPORT, "evaluation_file": "whole.jsonl"}
    whole = lines("whole.jsonl", [*EVALUATION, {"item_id": "q2", "prompt": TASKS[0]["prompt"]}])
    result = gate([running(first), running(REPORT)], [*FILES, whole])
    assert (result.status, rules(result)) == ("failed", {"R-199"})
    assert gate([running({**REPORT, "evaluation_file": "part.jsonl"}), running(REPORT)], FILES).status == "passed"
    part = lines("part.jsonl", EVALUATION[:1])
    assert (
        gate([running({**REPORT, "evaluation_file": "part.jsonl"}), running(REPORT)], [*FILES, part]).status == "passed"
    )


def test_an_audit_of_a_new_dataset_is_kept_in_a_new_file() -> None:
    """R-199"""
    tasks = [task for task in TASKS if task["item_id"] != "t1"]
    second = report_on(tasks, dataset_file="tasks-2.jsonl")
    files = [*FILES[:2], kept(report={}), lines("tasks-2.jsonl", tasks, 2)]
    result = gate([running(REPORT), running(second)], files)
    assert (result.status, rules(result)) == ("failed", {"R-199"})


def test_the_evaluation_set_is_what_arms_are_scored_on() -> None:
    """R-191"""
    evaluation = {"evaluators": {"e": {"items": {"ids": ["q0", "q1"]}}}}
    assert gate([running(REPORT, evaluation=evaluation)]).status == "passed"
    evaluation = {"evaluators": {"e": {"items": {"ids": ["q0", "q1", "q2"]}}}}
    result = gate([running(REPORT, evaluation=evaluation)])
    assert (result.status, rules(result)) == ("failed", {"R-191"})
    assert '"q2"' in result.problems[0].found


def test_the_items_that_arms_are_scored_on_may_stand_in_a_manifest() -> None:
    """R-191"""
    manifest = file_of("items.json", "other", '["q0", "q1", "q2"]', 1)
    items = {"manifest_ref": manifest.name, "manifest_sha256": manifest.sha256}
    update = running(REPORT, evaluation={"evaluators": {"e": {"items": items}}})
    assert rules(gate([update], [*FILES, manifest])) == {"R-191"}
    assert gate([update], [*FILES, file_of("items.json", "other", '["q0"]', 1)]).status == "passed", "another file"
    gone = EvidenceFile(manifest.name, "other", manifest.sha256, manifest.size, 1, unread)
    assert gate([update], [*FILES, gone]).status == gate([update]).status == "passed", (
        "evaluation_comparability says so"
    )


def test_the_evaluation_set_is_as_large_as_the_spec_says() -> None:
    """R-191: rows with one id are one item."""
    spec = {**SPEC, "eval": {"n_examples": 3}}
    for items in (EVALUATION, [*EVALUATION, EVALUATION[0]]):
        result = gate([running(REPORT)], [FILES[0], lines("evaluation.jsonl", items), FILES[2]], spec)
        assert (result.status, rules(result)) == ("unverified", {"R-191"})
    items = [*EVALUATION, {"item_id": "q2", "prompt": "?"}]
    assert gate([running(REPORT)], [FILES[0], lines("evaluation.jsonl", items), FILES[2]], spec).status == "passed"


def test_generated_files_that_no_audit_names_are_told() -> None:
    """R-191"""
    judgment = judged([running(REPORT)], [*FILES, lines("more.jsonl", TASKS)])
    assert [flag.text for flag in judgment.flags if flag.rule == "R-191"] == [
        'The file "more.jsonl" of generated tasks is named by no audit.'
    ]


def test_one_text_for_all_tasks_is_told() -> None:
    """R-192"""
    same = {**REPORT, "samples": [{**sample, "reasoning": "I solved it."} for sample in REPORT["samples"]]}
    assert "R-192" in flags(judged([running(same)], FILES))
    assert "R-192" not in flags(judged([running(REPORT)], FILES))


def test_a_plan_by_itself() -> None:
    """R-190, R-194"""
    assert plan_problems(spec_of(SPEC)) == ()
    (problem,) = plan_problems(spec_of({"title": "t", "generation_audit": {"answer_comparison": "close"}}))
    assert (problem.rule, problem.path) == ("R-194", "generation_audit.answer_comparison")
    limits = {**CONTRACT, "max_label_errors": -1, "min_sample_size": 1.5, "max_eval_overlaps": "0"}
    assert [problem.rule for problem in plan_problems(spec_of({**SPEC, "generation_audit": limits}))] == ["R-190"] * 3


def test_many_audits_take_no_time() -> None:
    """A run may post as often as it likes."""
    reports = [{**REPORT, "sample_seed": seed, "samples": []} for seed in range(300)]
    judgment = judged([running(report) for report in reports], FILES)
    assert judgment.gate("generation_audit").status == "failed"
    assert len(judgment.canonical_bytes()) < 100_000


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["generation_audit", "evaluation", "evidence", "completed_arms"]), ANYTHING, ANYTHING)
def test_any_posting_is_judged(part: str, first: Any, second: Any) -> None:
    """Invariant (iv)"""
    updates: list[Any] = [{"status": "running", part: first}, running(REPORT), {"status": "running", part: second}]
    raw = [json.dumps(update).encode() for update in updates]
    assert judged(raw, FILES).gate("generation_audit").status in ("passed", "failed", "unverified")


@pytest.mark.parametrize("path", ["/dataset_file", "/evaluation_file", "/audit_file"])
@pytest.mark.parametrize("name", ["audit.json", "evaluation.jsonl", "tasks.jsonl", "../tasks.jsonl", "", 7, None])
def test_a_name_is_one_of_the_right_file(path: str, name: Any) -> None:
    report = patched(REPORT, [{"op": "replace", "path": path, "value": name}])
    assert (gate([running(report)]).status == "passed") == (report == REPORT)
