"""The generation audit of a whole run: the files it names, what came before it, and when (contract §17)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import EvidenceFile, EvidenceLost, GateResult
from research_exchange.generation_audit import plan_problems, select_sample
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.support import file_of, patched, spec_of, updates_of, vectors
from tests.research_exchange.rules.test_generation_audit import ANYTHING

BASE = vectors("generation_audits")["base"]
CONTRACT, REPORT, TASKS, EVALUATION = (BASE[name] for name in ("contract", "report", "tasks", "evaluation"))
SPEC = {
    "title": "Training on generated sums",
    "experiment_features": {"generated_training_data": True},
    "generation_audit": CONTRACT,
    "arms": [{"name": "generated", "steps": 40}, {"name": "untouched", "steps": 0}],
}


def lines(name: str, rows: list[Any], update: int | None = 1) -> EvidenceFile:
    return file_of(name, "generated_tasks", "".join(json.dumps(row) + "\n" for row in rows), update)


def kept(name: str = "audit.json", report: Any = REPORT, update: int | None = 1) -> EvidenceFile:
    return file_of(name, "report", json.dumps(report), update)


FILES = [lines("tasks.jsonl", TASKS), lines("evaluation.jsonl", EVALUATION), kept()]
TRAINED: dict[str, Any] = {"status": "running", "completed_arms": ["generated"]}


def running(report: Any, **more: Any) -> dict[str, Any]:
    return {"status": "running", "generation_audit": report, **more}


def judged(updates: list[Any], files: list[EvidenceFile], spec: Any = SPEC) -> Judgment:
    return judge(spec_of(spec), updates_of(updates), files)


def gate(updates: list[Any], files: list[EvidenceFile] = FILES, spec: Any = SPEC) -> GateResult:
    return judged(updates, files, spec).gate("generation_audit")


def rules(result: GateResult) -> set[str]:
    return {problem.rule for problem in result.problems}


def flags(judgment: Judgment) -> set[str]:
    return {flag.rule for flag in judgment.flags}


def report_on(tasks: list[Any], answers: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An audit of some tasks that counts right, and answers every sampled task with its label, or as told."""
    told = answers or {}
    accepted = [task for task in tasks if task["disposition"] == "accepted"]
    size, seed = min(len(accepted), CONTRACT["min_sample_size"]), more.get("sample_seed", 0)
    selected: list[Any] = list(select_sample(accepted, size, seed))
    samples = [
        {
            **REPORT["samples"][0],
            "item_id": task["item_id"],
            "independent_answer": told.get(task["item_id"], task["answer"]),
            "reasoning": f"Counted {task['item_id']} on fingers.",
        }
        for task in selected
    ]
    dispositions = [task["disposition"] for task in tasks]
    counts = {
        "generated": len(tasks),
        "accepted": len(accepted),
        "rejected": dispositions.count("rejected"),
        "execution_errors": dispositions.count("execution_error"),
    }
    wrong = sum(task["item_id"] in told for task in selected)
    return {**REPORT, "samples": samples, "counts": counts, "label_error_count": wrong, **more}


def test_an_audit_before_training_passes() -> None:
    """R-196"""
    result = gate([running(REPORT), TRAINED])
    assert (result.status, result.problems) == ("passed", ())
    assert result.computed == {
        "counts": {"generated": 6, "accepted": 4, "rejected": 1, "execution_errors": 1},
        "sample_size": 3,
        "label_errors": 0,
        "overlaps": 0,
        "overlap_ids": [],
        "duplicates": 0,
        "duplicate_ids": [],
    }
    assert result.provenance["overlaps"] == "recomputed"
    assert result.provenance["label_errors"] == "declared", "it rests on answers that are the runner's word (R-198)"


def test_an_audit_that_is_repeated_in_every_update_is_one_audit() -> None:
    assert gate([running(REPORT), running(REPORT, **TRAINED), running(REPORT)]).status == "passed"
    assert "R-199" not in flags(judged([running(REPORT), running(REPORT)], FILES))


def test_a_report_that_says_false_things_fails_here_too() -> None:
    """R-197: what `validate` says stands."""
    result = gate([running({**REPORT, "counts": {**REPORT["counts"], "generated": 7}})])
    assert (result.status, rules(result)) == ("failed", {"R-197"})


def test_no_report_is_no_audit() -> None:
    """R-190"""
    limits = {**SPEC, "generation_audit": {**CONTRACT, "min_sample_size": -1}}
    assert [problem.path for problem in gate([]).problems] == ["generation_audit"]
    problems = gate([{"status": "running"}], spec=limits).problems
    assert [problem.path for problem in problems] == ["generation_audit", "generation_audit.min_sample_size"]


def unread() -> bytes:
    raise EvidenceLost("stored bytes that are gone")


def lost(name: str) -> list[EvidenceFile]:
    return [
        EvidenceFile(file.name, file.kind, file.sha256, file.size, 1, unread if file.name == name else file.content)
        for file in FILES
    ]


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        (FILES[1:], "R-191"),
        ([FILES[0], FILES[2]], "R-191"),
        (FILES[:2], "R-192"),
        ([file_of("tasks.jsonl", "other", FILES[0].content(), 1), *FILES[1:]], "R-191"),
        ([FILES[0], file_of("evaluation.jsonl", "predictions", FILES[1].content(), 1), FILES[2]], "R-191"),
        (lost("tasks.jsonl"), "R-16C"),
        (lost("evaluation.jsonl"), "R-16C"),
        (lost("audit.json"), "R-192"),
        ([file_of("tasks.jsonl", "generated_tasks", b"\xef\xbb\xbf" + FILES[0].content(), 1), *FILES[1:]], "R-191"),
        ([file_of("tasks.jsonl", "generated_tasks", FILES[0].content() + b"{]\n", 1), *FILES[1:]], "R-191"),
        ([file_of("tasks.jsonl", "generated_tasks", b"\n" + FILES[0].content(), 1), *FILES[1:]], "R-191"),
        ([file_of("tasks.jsonl", "generated_tasks", json.dumps(TASKS), 1), *FILES[1:]], "R-191"),
        ([file_of("tasks.jsonl", "generated_tasks", "", 1), *FILES[1:]], "R-191"),
        ([*FILES[:2], file_of("audit.json", "report", "[]", 1)], "R-192"),
        ([*FILES[:2], file_of("audit.json", "report", '{"sample_seed": NaN}', 1)], "R-192"),
    ],
)
def test_files_that_are_not_there_or_not_what_they_should_be(files: list[EvidenceFile], rule: str) -> None:
    """R-191, R-192, R-16C"""
    result = gate([running(REPORT)], files)
    assert (result.status, rules(result)) == ("unverified", {rule})


def test_blank_lines_at_the_end_are_no_rows() -> None:
    file = file_of("tasks.jsonl", "generated_tasks", FILES[0].content() + b"\n \n", 1)
    assert gate([running(REPORT)], [file, *FILES[1:]]).status == "passed"


def test_a_bad_line_is_named() -> None:
    file = file_of("tasks.jsonl", "generated_tasks", FILES[0].content() + b"{]\n", 1)
    (problem,) = gate([running(REPORT)], [file, *FILES[1:]]).problems
    assert "Line 7: " in problem.found


@pytest.mark.parametrize(
    "change",
    [
        {"sample_seed": 1},
        {"label_error_count": 3},
        {"overlap_count": 1},
        {"counts": {"accepted": 5}},
        {"samples": [{**REPORT["samples"][0], "independent_answer": "99"}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_audit_file_that_says_otherwise(change: Any) -> None:
    """R-197: the file was frozen, the report is what is claimed of it."""
    result = gate([running(REPORT)], [*FILES[:2], kept(report={**REPORT, **change})])
    assert (result.status, rules(result)) == ("failed", {"R-197"})
    assert {problem.path for problem in result.problems} == {"generation_audit.audit_file"}


def test_an_audit_file_of_another_form_is_only_kept() -> None:
    assert gate([running(REPORT)], [*FILES[:2], kept(report={"status": "passed", "notes": []})]).status == "passed"


# When


FINAL: dict[str, Any] = {"status": "succeeded", "verdict": "inconclusive", "completed_arms": ["generated"]}


@pytest.mark.parametrize(
    ("updates", "status"),
    [
        ([running(REPORT, completed_arms=["untouched"]), TRAINED], "passed"),
        ([{"status": "running", "completed_arms": ["untouched"]}, running(REPORT), TRAINED], "passed"),
        ([TRAINED, running(REPORT)], "failed"),
        ([running(REPORT, completed_arms=["generated"])], "unverified"),
        ([{"status": "running"}, {**FINAL, "generation_audit": REPORT}], "unverified"),
        ([{"status": "failed", "verdict": "inconclusive", "generation_audit": REPORT}], "unverified"),
        ([running(REPORT), {**FINAL, "generation_audit": REPORT}], "passed"),
        ([running({**REPORT, "sample_seed": None}), running(REPORT), TRAINED], "passed"),
        ([running({**REPORT, "sample_seed": None}), TRAINED, running(REPORT)], "failed"),
        ([running(REPORT), TRAINED, running({**REPORT, "duplicate_count": 0})], "passed"),
        ([{"status": "running", "evidence": {"checkpoints": [{"step": 40}]}}, running(REPORT)], "failed"),
        ([{"status": "running", "evidence": {"checkpoints": [{"step": 0}, 7]}}, running(REPORT)], "passed"),
        ([running(REPORT, evidence={"checkpoints": [{"step": 40}]})], "passed"),
    ],
)
def test_an_audit_guards_what_comes_after_it(updates: list[Any], status: str) -> None:
    """R-196"""
    result = gate(updates)
    assert result.status == status
    assert rules(result) == (set() if status == "passed" else {"R-196"})


def test_arms_that_start_from_one_adapter_are_trained() -> None:
    """R-196: an arm that the spec does not call trained may be an untouched one, unless a group has it."""
    arms = [{"name": "generated"}, {"name": "untouched"}]
    spec: dict[str, Any] = {**SPEC, "arms": arms}
    updates = [TRAINED, running(REPORT)]
    assert gate(updates, spec=spec).status == "passed"
    assert gate([running(REPORT, completed_arms=["generated", "untouched"])], spec=spec).status == "unverified"
    groups = [{"arms": [{"name": "generated"}, 7, {"name": ["untouched"]}]}, None]
    assert gate(updates, spec={**spec, "restoration_preflight": {"groups": groups}}).status == "failed"


def test_results_from_before_the_first_audit_are_told() -> None:
    """R-196: they refuse nothing, because a metric need not come from training."""
    early = {"status": "running", "metrics": {"arms": {"generated": {"loss": 1.5}, "untouched": {"loss": 1.5}}}}
    judgment = judged([early, running(REPORT), TRAINED], FILES)
    assert judgment.gate("generation_audit").status == "passed"
    (flag,) = (flag for flag in judgment.flags if flag.rule == "R-196")
    assert (flag.update, '"generated", before' in flag.text) == (1, True)
    assert "R-196" not in flags(judged([running(REPORT), early, TRAINED], FILES))


def test_files_are_frozen_before_the_audit_names_them() -> None:
    """R-191"""
    for index, file in enumerate(FILES):
        late = file_of(file.name, file.kind, file.content(), 2)
        files = [*FILES[:index], late, *FILES[index + 1 :]]
        result = gate([running(REPORT), {"status": "running"}], files)
        assert (result.status, rules(result)) == ("unverified", {"R-191"})
        again = running({**REPORT, "duplicate_count": 0})
        assert gate([running(REPORT), {"status": "running"}, again, TRAINED], files).status == "passed"


def test_an_audit_of_other_files_in_time_does_not_vouch_for_these() -> None:
    """R-196: audited one dataset, trained, then audited another."""
    tasks = [task for task in TASKS if task["item_id"] != "t1"]
    other = report_on(tasks, dataset_file="more.jsonl", audit_file="more.json")
    files = [*FILES, lines("more.jsonl", tasks, 3), kept("more.json", other, 3)]
    earlier = [*FILES, lines("more.jsonl", tasks), kept("more.json", other)]
    assert gate([running(REPORT), running(other)], earlier).status == "passed"
    result = gate([running(REPORT), TRAINED, running(other)], files)
    assert (result.status, rules(result)) == ("failed", {"R-196"})


# Repetition


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
