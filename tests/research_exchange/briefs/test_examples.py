"""The examples of a brief work: schemas parse and mean something, code compiles and calls what there is."""

import ast
import inspect
import json
import re
from typing import Any

import pytest

from research_exchange.briefs import PROFILE_NAMES, render_brief
from research_exchange.client import Run
from research_exchange.documents.json import parse
from research_exchange.evidence import checkpoint_problems, inline_files
from research_exchange.schemas import SCHEMAS, schema_text
from research_exchange.updates import PARTS, fold
from tests.research_exchange.briefs.cases import changed, legacy, original
from tests.research_exchange.briefs.reading import blocks, filled, sections
from tests.research_exchange.rules.support import updates_of
from tests.research_exchange.schemas.validation import faults

BASE = {"status", "summary", "metrics", "completed_arms", "verdict", "outcome_reason", "capacity_block"}


def examples(profile: str = "modal-spindle") -> list[str]:
    """Every JSON example of a brief that has all sections, the spec itself left aside."""
    return [
        example
        for heading, text in sections(render_brief(legacy(profile))).items()
        if heading != "Experiment spec"
        for example in blocks(text, "json")
    ]


def parsed() -> list[dict[str, Any]]:
    return [json.loads(filled(example)) for example in examples()]


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_every_schema_parses_once_its_placeholders_are_filled(profile: str) -> None:
    """R-055"""
    found = examples(profile)
    assert len(found) > 12
    for example in found:
        assert "<" not in json.dumps(parse(filled(example).encode())), example


def test_no_placeholder_is_lost() -> None:
    """An empty name or text in a schema is where one was."""
    for example in examples():
        assert '""' not in example
        assert not re.search(r":\s*[,}\]]", example), example


def test_every_field_of_an_update_is_shown() -> None:
    """R-060"""
    keys = {key for example in parsed() for key in example}
    assert keys >= BASE | set(PARTS)


def test_a_final_update_with_every_part_is_folded_without_a_remark() -> None:
    update: dict[str, Any] = {}
    for example in reversed(parsed()):
        update |= {key: value for key, value in example.items() if key in BASE | set(PARTS)}
    update |= {"status": "succeeded"}
    state = fold(changed(original("score_centering"), arms=[{"name": "arm"}]), updates_of([update]))
    assert state.flags == ()
    assert state.is_final
    assert set(state.posted) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_an_example_of_a_part_has_its_published_shape(part: str) -> None:
    shown = [example[part] for example in parsed() if part in example]
    assert shown
    if part in SCHEMAS:
        assert [fault for value in shown for fault in faults(value, json.loads(schema_text(part)))] == []


def test_the_evidence_example_is_admissible() -> None:
    (evidence,) = (example for example in parsed() if "evidence" in example)
    assert [file.problems for file in inline_files(evidence)] == [(), ()]
    assert checkpoint_problems(evidence["evidence"]["checkpoints"][0], ["arm"], "checkpoint") == ()


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_code_examples_compile(profile: str) -> None:
    for code in blocks(render_brief(legacy(profile)), "python"):
        compile(code, "brief", "exec")


def test_the_client_example_calls_what_the_client_has() -> None:
    (code,) = (code for code in blocks(render_brief(legacy("spindle")), "python") if "research_exchange.client" in code)
    calls = [
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if node.func.value.id in {"run", "Run"}
    ]
    assert len(calls) == 7
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        method = inspect.signature(getattr(Run, call.func.attr))
        positional = call.args if call.func.attr == "from_env" else [None, *call.args]
        method.bind(*positional, **{str(keyword.arg): None for keyword in call.keywords})
