"""The generation audit: samples, answers, prompts, and the report as a whole (contract §17)."""

import json
import time
import unicodedata
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents.generated_tasks import MAX_PROMPT
from research_exchange.documents.json import INT_MAX
from research_exchange.generation_audit import answer_agreement, evaluation_overlap, select_sample, validate
from research_exchange.generation_audit.prompts import normalized
from tests.research_exchange.rules.support import patched, vectors

AUDITS = vectors("generation_audits")
CASES = {case["name"]: case for case in AUDITS["cases"]}


def validated(document: Any, **options: Any) -> Any:
    return validate(
        document["report"], document["contract"], tasks=document["tasks"], evaluation=document["evaluation"], **options
    )


@pytest.mark.parametrize("case", vectors("generated_samples")["cases"], ids=lambda case: f"seed {case['seed']}")
def test_a_sample(case: Any) -> None:
    """R-193"""
    tasks = [{"item_id": item, "disposition": "accepted"} for item in case["ids"]]
    tasks += [{"item_id": "rejected", "disposition": "rejected"}, {"item_id": "none"}]
    for size in (0, 1, 5, 8, 100):
        assert [task["item_id"] for task in select_sample(tasks, size, case["seed"])] == case["order"][:size]
    assert select_sample(tasks, -1, 0) == []


def test_the_order_is_that_of_a_hash_over_json_with_a_space() -> None:
    """R-193: another language has to write the same bytes."""
    digest = sha256(b'[0, "t0"]').hexdigest()
    assert (digest[:8], digest[-4:]) == ("94432a11", "6e45")
    compact = sorted((f"t{i}" for i in range(8)), key=lambda item: sha256(f'[0,"{item}"]'.encode()).hexdigest())
    assert compact == ["t1", "t3", "t2", "t5", "t6", "t0", "t7", "t4"], "what the other separators would give"
    ids = sorted(["é", "\ud800", "a"], key=lambda item: sha256(json.dumps([3, item]).encode()).hexdigest())
    tasks = [{"item_id": item, "disposition": "accepted"} for item in ("a", "é", "\ud800")]
    assert [task["item_id"] for task in select_sample(tasks, 3, 3)] == ids


@pytest.mark.parametrize(
    "case", vectors("answer_agreement")["cases"], ids=lambda c: f"{str(c['label'])[:20]!r} {str(c['answer'])[:20]!r}"
)
def test_answers(case: Any) -> None:
    """R-194, both ways round."""
    assert answer_agreement(case["label"], case["answer"], case["strategy"]) is case["result"]
    assert answer_agreement(case["answer"], case["label"], case["strategy"]) is case["result"]


def test_numbers_that_no_json_text_holds() -> None:
    """R-194"""
    for value in (float("nan"), float("inf"), INT_MAX + 1, 10**5000):
        assert answer_agreement(value, value, "numeric_exact") is None


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "9" * 10**6, f"1/{'9' * 10**6}", f"1e{'9' * 5000}"])
def test_numbers_that_would_take_for_ever(number: str) -> None:
    """R-194"""
    begin = time.perf_counter()
    assert answer_agreement(number, number, "numeric_exact") is None
    assert time.perf_counter() - begin < 0.1


@pytest.mark.parametrize("case", vectors("prompt_normalization")["cases"], ids=lambda case: ascii(case["prompt"]))
def test_normalization(case: Any) -> None:
    """R-195"""
    assert normalized(case["prompt"]) == case["normalized"]


def test_a_full_stop_makes_another_prompt() -> None:
    """R-195"""
    tasks = [{"item_id": "t", "prompt": "tom has 5 apples", "disposition": "accepted"}]
    assert evaluation_overlap(tasks, [{"item_id": "q", "prompt": "Tom has 5  apples.\n"}])["overlap_count"] == 0
    assert evaluation_overlap(tasks, [{"item_id": "q", "prompt": "TOM has 5  apples\n"}])["overlap_count"] == 1


@pytest.mark.parametrize("marks", ["\u0316\u0300", "\u0f73\uff9e", "\u0344\u0f81"], ids=ascii)
def test_endless_combining_marks_are_sorted_in_no_time(marks: str) -> None:
    begin = time.perf_counter()
    once = normalized("a" + marks * (MAX_PROMPT // 2))
    assert time.perf_counter() - begin < 2
    assert once != normalized("b" + marks * (MAX_PROMPT // 2))


@given(st.text(st.characters(exclude_categories=["Mn", "Mc", "Me", "Cs"]), max_size=20))
@settings(max_examples=50, deadline=None)
def test_ordinary_text_is_normalized_as_unicode_says(text: str) -> None:
    assert normalized(text) == " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def test_overlaps_and_duplicates_come_with_ids() -> None:
    """R-195: accepted tasks alone."""
    prompts = {"a": "One?", "b": "ONE?", "c": "Two?", "d": " one? "}
    tasks: list[Any] = [{"item_id": key, "prompt": text, "disposition": "accepted"} for key, text in prompts.items()]
    tasks += [{"item_id": "r", "prompt": "Two?", "disposition": "rejected"}, {"disposition": "accepted"}]
    assert evaluation_overlap(tasks, [{"item_id": "q", "prompt": "two?"}, {"item_id": "x"}]) == {
        "overlap_count": 1,
        "overlap_ids": ["c"],
        "duplicate_count": 2,
        "duplicate_ids": ["b", "d"],
    }


@pytest.mark.parametrize("name", CASES)
def test_audit(name: str) -> None:
    """R-190 to R-19A"""
    case = CASES[name]
    document = patched(AUDITS["base"], case["patch"])
    before = json.dumps(document)
    answer = validated(document, require_comparison=case.get("require_comparison", True))
    assert answer["status"] == case["status"]
    assert {problem["rule"] for problem in answer["problems"]} == set(case["rules"])
    assert json.dumps(document) == before, "nothing is changed"
    json.dumps(answer)


@pytest.mark.parametrize("part", ["tasks", "evaluation"])
def test_a_file_without_rows_shows_nothing(part: str) -> None:
    """R-191: neither that the tasks are sound nor that none of them is held out."""
    answer = validated({**AUDITS["base"], part: []})
    assert answer["status"] == "unverified"
    (problem,) = answer["problems"]
    assert (problem["rule"], problem["path"], problem["found"]) == ("R-191", part, "0 rows")


def test_what_is_false_stands_before_what_is_missing() -> None:
    document = patched(AUDITS["base"], CASES["what is failed stands before what is missing"]["patch"])
    first, second = validated(document)["problems"]
    assert (first["rule"], first["path"]) == ("R-197", "generation_audit.counts.generated")
    assert (second["rule"], second["path"]) == ("R-192", "generation_audit.samples[0].resolver_id")
    assert first["text"] == (
        "R-197 generation_audit.counts.generated: expected 6, found 7. "
        "Report what the frozen files and the independent answers amount to."
    )


def test_audit_case_names_are_different() -> None:
    assert len(CASES) == len(AUDITS["cases"])


def large(accepted: int = 120, samples: int = 100, contract: Any = None) -> Any:
    """250 candidates, some of them accepted, and a sound audit of them."""
    tasks: list[Any] = [
        {"item_id": f"t{i}", "prompt": f"{i} + 1?", "answer": i + 1, "disposition": "accepted"} for i in range(accepted)
    ]
    selected = select_sample(tasks, samples, 5)
    tasks += [{**tasks[0], "item_id": f"r{i}", "disposition": "rejected"} for i in range(250 - accepted)]
    report = {
        **AUDITS["base"]["report"],
        "sample_seed": 5,
        "counts": {"generated": 250, "accepted": accepted, "rejected": 250 - accepted, "execution_errors": 0},
        "samples": [
            {
                **AUDITS["base"]["report"]["samples"][0],
                "item_id": task["item_id"],
                "independent_answer": f"{task['answer']}.0",
            }
            for task in selected
        ],
    }
    evaluation = [{"item_id": "q0", "prompt": "What is 7 + 1?"}]
    return {"contract": contract or {"answer_comparison": "numeric_exact"}, "report": report, "tasks": tasks} | {
        "evaluation": evaluation
    }


@pytest.mark.parametrize(
    ("accepted", "samples", "contract", "status"),
    [
        (120, 100, {}, "passed"),
        (40, 40, {}, "passed"),
        (120, 99, {}, "failed"),
        (120, 101, {}, "failed"),
        (120, 100, {"min_sample_size": None}, "passed"),
        (120, 100, {"min_sample_size": 0}, "passed"),
        (120, 120, {"min_sample_size": 1000}, "passed"),
        (120, 20, {"min_sample_size": 20}, "passed"),
        (120, 20, {}, "failed"),
    ],
)
def test_the_size_of_the_sample(accepted: int, samples: int, contract: Any, status: str) -> None:
    """R-190, R-193: all accepted tasks, or as many as the contract asks for, 100 by default."""
    document = large(accepted, samples, {"answer_comparison": "numeric_exact", **contract})
    answer = validated(document)
    assert answer["status"] == status
    assert answer["computed"]["counts"]["generated"] == 250
    assert answer["computed"]["sample_size"] == min(accepted, contract.get("min_sample_size") or 100)


def test_wrong_throughout_is_told_in_few_words() -> None:
    document = large(250, 250, {"answer_comparison": "numeric_exact", "min_sample_size": 250})
    for sample in document["report"]["samples"]:
        sample |= {"independent_answer": -1, "method": "x" * 10_000, "resolver_id": None, "blind_to_label": None}
    document["tasks"] = [{**task, "prompt": "7 + 1?"} for task in document["tasks"]]
    document["evaluation"] = [{"item_id": "q", "prompt": "7 + 1?"}]
    answer = validated(document)
    assert answer["status"] == "failed"
    assert len(json.dumps(answer)) < 20_000


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["t1", "accepted"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)
PLACES = [
    f"/{part}{path}"
    for part, paths in {
        "report": ("", "/samples", "/samples/0", "/samples/0/item_id", "/counts", "/sample_seed", "/stage", "/version"),
        "tasks": ("", "/0", "/0/item_id", "/0/answer", "/0/prompt", "/0/disposition", "/3/code"),
        "evaluation": ("", "/0", "/0/prompt"),
        "contract": ("", "/answer_comparison", "/min_sample_size", "/max_label_errors"),
    }.items()
    for path in paths
]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(PLACES), ANYTHING)
def test_anything_is_answered(place: str, value: Any) -> None:
    """Invariant (iv)"""
    document = patched(AUDITS["base"], [{"op": "replace", "path": place, "value": value}])
    assert validated(document)["status"] in ("passed", "failed", "unverified")
