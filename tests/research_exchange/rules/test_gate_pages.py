"""The examples on the gates' pages are judged: what a page calls accepted passes, what it calls refused does not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from research_exchange.documents.decision_rule import MAX_CRITERIA
from research_exchange.documents.gates import GateStatus
from research_exchange.documents.run_document import RunDocument
from research_exchange.experiment_features import CHECKS
from research_exchange.gate_results import DECISION_GATE
from research_exchange.judgment import judge
from research_exchange.schemas import SCHEMAS

PAGES = Path(__file__).parents[3] / "docs" / "reference" / "gates"
GATES = (*CHECKS, DECISION_GATE)
_BLOCK = re.compile(r"^```json (accepted|refused)(?: (R-\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RULES = re.compile(r"^Rules: (.+?)\.$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    gate: str
    number: int
    rule: str | None
    """The rule that refuses it; None for one that is accepted."""
    text: str


def examples() -> Iterator[Example]:
    for page in sorted(PAGES.glob("*.md")):
        for number, (kind, rule, text) in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8"))):
            assert (kind == "refused") == bool(rule), f"{page.name}: a refused example names its rule"
            yield Example(page.stem, number, rule or None, text)


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.gate}-{e.number}-{e.rule or 'accepted'}")
def test_example(example: Example) -> None:
    document = RunDocument.parse(example.text.encode())
    gate = judge(document.spec, document.updates, document.evidence).gate(example.gate)
    if example.rule is None:
        assert (gate.status, gate.problems) == (GateStatus.PASSED, ())
    else:
        assert gate.status in (GateStatus.FAILED, GateStatus.UNVERIFIED)
        assert example.rule in {problem.rule for problem in gate.problems}


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_has_a_page_with_both_sorts_of_examples(gate: str) -> None:
    refused = {example.rule is not None for example in EXAMPLES if example.gate == gate}
    assert refused == {True, False}


@pytest.mark.parametrize("gate", GATES)
def test_a_page_lists_its_rules(gate: str) -> None:
    listed = _RULES.search((PAGES / f"{gate}.md").read_text(encoding="utf-8"))
    assert listed is not None
    rules = set(re.findall(r"R-\w{3}", listed[1]))
    assert {example.rule for example in EXAMPLES if example.gate == gate and example.rule} <= rules


@pytest.mark.parametrize("gate", GATES)
def test_a_page_says_where_the_schema_of_its_report_is(gate: str) -> None:
    named = set(re.findall(r"`rx schema (\w+)`", (PAGES / f"{gate}.md").read_text(encoding="utf-8")))
    assert named - {"spec"}
    assert named <= SCHEMAS.keys()


def test_the_page_of_the_decision_knows_how_many_criteria_there_may_be() -> None:
    assert f"| 1 to {MAX_CRITERIA} comparisons;" in (PAGES / "decision.md").read_text(encoding="utf-8")


def test_there_is_no_page_of_a_gate_that_is_none() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} <= set(GATES)
