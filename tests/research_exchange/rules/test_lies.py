"""Every lie of the catalogue is caught by the gate that owns it, and no check is there that no lie needs."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from research_exchange import prediction_checks
from research_exchange.documents import Applicability, GateStatus
from research_exchange.documents.run_document import RunDocument
from research_exchange.experiment_features import CHECKS
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.catalogue import PAGE, page
from tests.research_exchange.rules.lies import BASES, LIES, base_run, told
from tests.research_exchange.rules.switches import Check, Way, switched_rules

Lie = Mapping[str, Any]

SIZE_MATTERS = ("decision", "evaluation_comparability")
FULL = [lie for lie in LIES if lie["base"] == "gs1" and lie.get("gate") in SIZE_MATTERS and lie["rule"] != "R-140"][::3]
"""Some of the lies about rows, scores and answers: they are told of all 1319 items as well."""


@pytest.fixture(autouse=True)
def _little_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lie that keeps the reader busy does so with the few rows of the short run."""
    for checks in (prediction_checks, switched_rules().modules["prediction_checks"]):
        monkeypatch.setattr(checks, "MAX_ROW_VISITS", 50_000)


def raw(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def judged(document: dict[str, Any]) -> Judgment:
    run = RunDocument.parse(raw(document))
    return judge(run.spec, run.updates, run.evidence, ended=run.ended)


def name_of(lie: Lie) -> str:
    return f"{lie.get('gate') or lie.get('basis') or 'flag'}: {lie['lie']}"


def assert_caught(lie: Lie, judgment: Judgment) -> None:
    if "flag" in lie:
        assert lie["flag"] in {flag.rule for flag in judgment.flags}
        return
    assert judgment.recorded_verdict == "inconclusive"
    if "basis" in lie:
        assert judgment.basis == lie["basis"]
        return
    assert judgment.withheld
    assert lie["gate"] in judgment.withholding_gates
    assert lie["rule"] in {problem.rule for problem in judgment.gate(lie["gate"]).problems}


@pytest.mark.parametrize("short", [True, False], ids=["short", "full"])
@pytest.mark.parametrize("base", BASES)
def test_an_honest_run_is_believed(base: str, short: bool) -> None:
    judgment = judged(base_run(base, short=short))
    assert (judgment.recorded_verdict, judgment.basis, judgment.withholding_gates) == ("supported", "agreed", ())


@pytest.mark.parametrize("lie", LIES, ids=name_of)
def test_a_lie_is_caught_by_its_gate(lie: Lie) -> None:
    assert_caught(lie, judged(told(lie)))


def test_lies_about_many_rows_are_caught() -> None:
    missed = []
    for lie in FULL:
        try:
            assert_caught(lie, judged(told(lie, short=False)))
        except AssertionError:
            missed.append(lie["lie"])
    assert missed == []


def test_every_gate_is_lied_to() -> None:
    assert {lie["gate"] for lie in LIES if "gate" in lie} == {*CHECKS, "decision"}
    assert len({lie["lie"] for lie in LIES}) == len(LIES)


def test_every_gate_is_required_by_a_base() -> None:
    gates = [gate for base in BASES for gate in judged(base_run(base)).gates]
    required = {gate.gate for gate in gates if gate.applicability is Applicability.REQUIRED}
    assert required == {*CHECKS, "decision"}
    assert {gate.status for gate in gates} == {GateStatus.PASSED, GateStatus.NOT_APPLICABLE}


def test_the_catalogue_is_a_page_for_readers() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.research_exchange.rules.catalogue writes it"


# --- The other way round ---


class _Told:
    """A lie, judged with every check in place."""

    def __init__(self, lie: Lie) -> None:
        rules = switched_rules()
        self.lie = lie
        self.raw = raw(told(lie))
        judgment = rules.judge(self.raw)
        self.fired = frozenset(rules.switches.fired)
        self.paths = {problem.path.rpartition(".")[2] for gate in judgment.gates for problem in gate.problems}

    def gets_through_without(self, check: Check, way: Way) -> bool:
        """Whether inconclusive is not recorded any more, or its gate passes and leaves it to another one."""
        try:
            judgment = switched_rules().judge(self.raw, check, way)
        except Exception:
            return False
        if judgment.recorded_verdict != "inconclusive":
            return True
        return "gate" in self.lie and judgment.gate(self.lie["gate"]).status == GateStatus.PASSED


@cache
def _all_told() -> tuple[_Told, ...]:
    return tuple(_Told(lie) for lie in LIES if "flag" not in lie)


def _candidates(check: Check) -> list[_Told]:
    """Lies that this check has something to say about; first those that fewest other checks speak of."""
    found = [each for each in _all_told() if check.number in each.fired]
    if check.subject is not None:
        beside = {
            other.number
            for other in switched_rules().switches.checks
            if (other.module, other.function) == (check.module, check.function) and other.subject is None
        }
        found = [each for each in found if check.subject.rpartition(".")[2] in each.paths and beside & each.fired]
    return sorted(found, key=lambda each: len(each.fired))


def test_no_check_is_decoration() -> None:
    """Without any one check, left out or silenced, a lie gets through."""
    decoration = [
        str(check)
        for check in switched_rules().switches.checks
        if not any(each.gets_through_without(check, way) for each in _candidates(check) for way in Way)
    ]
    assert decoration == [], "tell a lie that gets through without it, or leave it to the check that says the same"
    assert len(switched_rules().switches.checks) > 300


def test_the_switches_change_nothing_by_themselves() -> None:
    """The second copy of the rules says the same to the last byte, while every check is on."""
    for lie in LIES[::10]:
        document = told(lie)
        assert switched_rules().judge(raw(document)).canonical_bytes() == judged(document).canonical_bytes()
