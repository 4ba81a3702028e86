"""Everything that binds a runner is said, in the section it belongs to, in words of our own (R-055)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from research_exchange.briefs import render_brief
from tests.research_exchange.briefs.cases import declared, legacy
from tests.research_exchange.briefs.reading import prose, sections

HERE = Path(__file__).parent
TEXTS = Path(__file__).parents[3] / "src" / "research_exchange" / "briefs"
SEEDS = Path(__file__).parents[4] / "shared" / "seeds"
WORDS_IN_A_ROW = 7
"""Two texts that share so many took them from one another; code and names of fields are left aside."""

OBLIGATIONS: list[dict[str, Any]] = json.loads((HERE / "obligations.json").read_text(encoding="utf-8"))["obligations"]
BRIEFS = {
    "legacy": sections(render_brief(legacy())),
    "declared": sections(render_brief(declared())),
    "local": sections(render_brief(declared("spindle"))),
}


@pytest.mark.parametrize("duty", OBLIGATIONS, ids=lambda duty: f"{duty['rule']} {duty['section']}")
def test_an_obligation_is_stated_in_its_section(duty: dict[str, Any]) -> None:
    section = BRIEFS[duty["brief"]][duty["section"]]
    said = prose(section)
    assert [words for words in duty["says"] if prose(words) not in said] == [], duty["obligation"]
    assert duty["rule"] in section or not duty["cited"]


def test_every_rule_that_a_brief_cites_is_one_of_the_obligations() -> None:
    cited = {
        rule for brief in BRIEFS.values() for text in brief.values() for rule in re.findall(r"R-[0-9A-F]{3}", text)
    }
    assert cited <= {duty["rule"] for duty in OBLIGATIONS}


@pytest.mark.parametrize("seed", ["000_140819615d939896.txt", "001_f459dd81f8c79b9a.txt"])
def test_no_sentence_is_taken_from_a_seed(seed: str) -> None:
    path = SEEDS / seed
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    theirs = _runs(path.read_text(encoding="utf-8"))
    for text in (*TEXTS.glob("texts/**/*.md"), TEXTS / "opening.py", TEXTS / "work.py"):
        ours = _runs(re.sub(r"```\w*\n.*?```|`[^`]*`", " <> ", text.read_text(encoding="utf-8"), flags=re.DOTALL))
        assert not ours & theirs, text.name


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9']+|<>", text.lower())
    runs = (tuple(words[start : start + WORDS_IN_A_ROW]) for start in range(len(words) - WORDS_IN_A_ROW + 1))
    return {run for run in runs if "<>" not in run}
