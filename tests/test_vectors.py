"""The vectors name their rules, and every rule of the contract is named by a test or a vector.

A case of `tests/vectors` is an entry of a list at the top of a file; what cases are made from stands in objects. The
contract and the statistics are read where they lie beside the repository.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
DESIGN = TESTS.parents[1] / "shared" / "design"
FILES = sorted((TESTS / "vectors").glob("*.json"))
RULE = re.compile(r"R-[0-9A-F]{3}")
SECTION = re.compile(r"decision-statistics §(\d+(?:\.\d+)?)")


def cases(path: Path) -> Iterator[tuple[str, Any]]:
    """Each case of a file, with the place where it stands."""
    for name, entries in json.loads(path.read_text(encoding="utf-8")).items():
        if isinstance(entries, list):
            yield from ((f"{path.name}: {name}[{index}]", case) for index, case in enumerate(entries))


def named_by(case: Any) -> str | None:
    """The rule that a case is for; a lie may be told to a reader (`flag`) instead of caught by a gate."""
    return case.get("rule") or case.get("flag") if isinstance(case, dict) else None


def design(name: str) -> str:
    path = DESIGN / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the repository")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_names_its_rule(path: Path) -> None:
    """A lie whose verdict no gate withholds names the `basis` on which another one is recorded."""
    unnamed = [
        place
        for place, case in cases(path)
        if not (RULE.fullmatch(named_by(case) or "") or SECTION.fullmatch(named_by(case) or ""))
        and not (path.stem == "lies" and case.get("basis"))
    ]
    assert unnamed == []
    assert any(True for _ in cases(path)), "a file of vectors has cases"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_that_expects_rules_is_for_one_of_them(path: Path) -> None:
    others = [
        place
        for place, case in cases(path)
        if isinstance(case, dict) and case.get("rules") and case["rule"] not in case["rules"]
    ]
    assert others == []


def test_every_rule_that_a_case_names_is_in_the_contract() -> None:
    rules = set(re.findall(r"^- (R-[0-9A-F]{3}) ", design("exchange-contract.md"), re.MULTILINE))
    sections = set(re.findall(r"^(?:##+ |\*\*)(\d+(?:\.\d+)?)[. ]", design("decision-statistics.md"), re.MULTILINE))
    known = rules | {f"decision-statistics §{section}" for section in sections}
    named = {name: place for path in FILES for place, case in cases(path) if (name := named_by(case))}
    assert {name: place for name, place in named.items() if name not in known} == {}


def test_every_rule_of_the_contract_is_named_by_a_test() -> None:
    rules = re.findall(r"^- (R-[0-9A-F]{3}) ", design("exchange-contract.md"), re.MULTILINE)
    sources = [*TESTS.rglob("test_*.py"), *FILES, TESTS / "research_exchange" / "briefs" / "obligations.json"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    named = {*RULE.findall(text), *(f"R-{name.upper()}" for name in re.findall(r"\btest_r([0-9a-f]{3})_", text))}
    assert len(rules) > 150
    assert [rule for rule in rules if rule not in named] == []
