"""A place that a rule names is found in the document that it speaks of (R-221)."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.documents.gates import GateStatus
from research_exchange.judgment import judge
from research_exchange.updates import fold
from research_exchange.web.run.inputs import Inputs, anchor, steps
from research_exchange.web.run.lines import MAX_LINES, lines_of
from tests.research_exchange.rules.honest_run import honest_run
from tests.research_exchange.rules.support import file_of, spec_of, updates_of

values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('abc_.[]" ', max_size=4), inner, max_size=4),
    max_leaves=12,
)


def inputs_of(document: dict[str, Any]) -> Inputs:
    spec = spec_of(document["spec"])
    files = {file["name"]: f"/files/{file['name']}" for file in document["evidence"]}
    return Inputs("run_1", spec, fold(spec, updates_of(document["updates"])), files)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("decision.observations[12].value", ["decision", "observations", 12, "value"]),
        ('evaluation.evaluators["a.b[0]"].items', ["evaluation", "evaluators", "a.b[0]", "items"]),
        ("metrics", ["metrics"]),
        ("", []),
        ("a[", []),
        ('a["open', []),
    ],
)
def test_a_path_is_read_step_by_step(path: str, expected: list[str | int]) -> None:
    assert steps(path) == expected


@given(st.text())
def test_whatever_a_path_is_reading_it_never_fails(path: str) -> None:
    steps(path)
    inputs_of({"spec": {"title": "T"}, "updates": [], "evidence": []}).of_path(path)


@given(st.dictionaries(st.text(max_size=4), values, max_size=5))
def test_the_lines_of_a_document_are_the_document(document: dict[str, Any]) -> None:
    lines = lines_of(document)
    assert json.loads("\n".join(line.text for line in lines.shown)) == document
    ids = [line.id for line in lines.shown if line.id is not None]
    assert len(ids) == len(set(ids))


def test_a_document_beyond_all_measure_is_cut() -> None:
    lines = lines_of({"rows": [[number] for number in range(MAX_LINES + 10)]})
    assert lines.is_cut and len(lines.shown) == MAX_LINES


def test_a_place_is_found_in_the_newest_update_that_has_its_part() -> None:
    address = inputs_of(honest_run()).of_path("evaluation.scores[1].value")
    assert address is not None
    page, _, place = address.partition("#")
    assert page == "/runs/run_1/updates/4"
    assert unquote(place) == anchor(("evaluation", "scores", 1, "value"))


def test_what_is_missing_leads_to_the_last_place_that_is_there() -> None:
    address = inputs_of(honest_run()).of_path("initialization_provenance.arms[1].restored.by")
    assert address is not None
    assert unquote(address) == "/runs/run_1/updates/2#at-initialization_provenance.arms[1]"


def test_a_place_in_the_spec_leads_there_though_the_run_reports_a_part_of_that_name() -> None:
    address = inputs_of(honest_run()).of_path("correctness_preflight.paths[0].kind")
    assert address is not None
    assert unquote(address) == "/runs/run_1/spec#at-correctness_preflight.paths[0].kind"


def test_a_place_in_a_report_leads_there_though_the_spec_has_a_part_of_that_name() -> None:
    address = inputs_of(honest_run()).of_path("correctness_preflight.paths[0].errors.baseline_loss")
    assert address is not None
    assert unquote(address) == "/runs/run_1/updates/2#at-correctness_preflight.paths[0].errors.baseline_loss"


def test_a_row_of_a_file_leads_to_the_file() -> None:
    assert inputs_of(honest_run()).of_path("rows.jsonl[3].value") == "/files/rows.jsonl"


def test_every_problem_of_a_wrong_run_leads_somewhere_or_speaks_of_what_is_missing() -> None:
    document = honest_run()
    for update in document["updates"]:
        for name in ("evaluation", "initialization_provenance", "correctness_preflight"):
            if name in update:
                update[name] = json.loads(json.dumps(update[name]).replace("true", '"yes"'))
    spec = spec_of(document["spec"])
    files = [file_of(f["name"], f["kind"], f["content"], f["update"]) for f in document["evidence"]]
    judgment = judge(spec, updates_of(document["updates"]), files)
    problems = [problem for gate in judgment.gates for problem in gate.problems]
    assert judgment.gate("restoration_preflight").status is not GateStatus.PASSED
    assert len(problems) > 5
    inputs = inputs_of(document)
    assert [problem.path for problem in problems if inputs.of_problem(problem) is None] == []
