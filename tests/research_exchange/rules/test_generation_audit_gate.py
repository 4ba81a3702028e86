"""The generation audit of a whole run: the files it names, what came before it, and when (contract §17)."""

import json
from typing import Any

import pytest

from research_exchange.documents import EvidenceFile
from research_exchange.evaluation import evaluator_id
from research_exchange.judgment import Judgment
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
from tests.research_exchange.rules.support import file_of


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


# --- The prompts that overlap is looked for in ---


def evaluated(*prompts: str | None) -> Judgment:
    """A run that scores two items, whose predictions tell these prompts, one row after the other."""
    items = [row["item_id"] for row in EVALUATION]
    provenance: dict[str, Any] = {
        "code_sha256": "a" * 64,
        "prompt_template": "{question}",
        "decoding": {"temperature": 0, "max_tokens": 16, "stop": []},
        "parser": "last_number_v1",
        "items": {"ids": items},
    }
    key = evaluator_id(provenance)
    score = {"arm": "generated", "metric": "accuracy", "value": 1, "evaluator_id": key, "predictions_ref": "p.jsonl"}
    evaluation = {"version": 1, "evaluators": {key: provenance}, "scores": [score], "comparisons": []}
    rows = [
        {"item_id": item, "arm": "generated", "prediction": "1", "reference": "1"}
        | ({"prompt": prompt} if prompt else {})
        for item, prompt in zip(items * 2, prompts, strict=False)
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    files = [*FILES, file_of("p.jsonl", "predictions", content, 2)]
    return judged([running(REPORT), {**TRAINED, "evaluation": evaluation}], files)


ASKED = [row["prompt"] for row in EVALUATION]


def test_r195_prompts_that_the_audit_alone_tells_are_remarked() -> None:
    judgment = evaluated(*[None] * len(ASKED))
    assert judgment.gate("generation_audit").status == "passed"
    assert "R-195" in flags(judgment)


def test_r195_prompts_that_the_predictions_tell_are_tied_to_what_was_asked() -> None:
    judgment = evaluated(*(f"Answer briefly:\n{prompt.upper()}\n" for prompt in ASKED))
    assert judgment.gate("generation_audit").status == "passed"
    assert "R-195" not in flags(judgment)


@pytest.mark.parametrize("prompts", [["Another question?", *ASKED[1:]], [*ASKED, "Another question?"]])
def test_r191_made_up_prompts_are_contradicted_by_what_was_asked(prompts: list[str]) -> None:
    result = evaluated(*prompts).gate("generation_audit")
    assert (result.status, rules(result)) == ("failed", {"R-191"})
    assert 'as in "p.jsonl", "Another question?"' in result.problems[0].expected
