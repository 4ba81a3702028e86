"""The live view shows whatever a script posts, and never ends its run."""

import io
from typing import Any

import pytest
from rich.console import Console

from research_exchange.judgment import judge
from research_exchange.terminal import BarView, LineView, judgment_report
from tests.research_exchange.rules.support import spec_of, updates_of, vectors

ODD: list[dict[str, Any]] = [
    {},
    {"summary": 7, "metrics": []},
    {"metrics": "none"},
    {"metrics": {"arms": ["trained"]}},
    {"metrics": {"arms": {"trained": 0.5}}},
    {"metrics": {"arms": {"trained": {"accuracy": "high", "loss": None}}}},
    {"metrics": {"step": "first", "steps": 3}},
    {"metrics": {"step": 1, "steps": None}},
    {"metrics": {"step": 1, "steps": 3, "reward": "good", "seconds_left": [], "loss": True}},
    {"metrics": {"step": 5, "steps": 0, "seconds_left": -1}},
]


@pytest.mark.parametrize("view", [LineView, BarView])
def test_odd_updates_are_shown_as_far_as_they_go(view: type[LineView] | type[BarView]) -> None:
    said = io.StringIO()
    with view(Console(file=said, force_terminal=view is BarView, width=100)) as shown:
        for update in ODD:
            shown.show(update)
        shown.show({"summary": "Now for real.", "metrics": {"arms": {"trained": {"accuracy": 0.5, "odd": "x"}}}})
    assert "Now for real." in said.getvalue()
    assert "trained: accuracy 0.500" in said.getvalue()
    assert "odd" not in said.getvalue()


def test_a_withheld_judgment_says_what_is_wrong() -> None:
    base = vectors("runs")["base"]
    judgment = judge(spec_of(base["spec"]), updates_of(base["updates"]), evidence=[]).to_json()
    said = io.StringIO()
    Console(file=said, width=200).print(judgment_report(judgment))
    assert "Recorded: inconclusive, withheld" in said.getvalue()
    lines = [line.split() for line in said.getvalue().splitlines()]
    assert ["R-133", "evaluation.scores[0].predictions_ref"] in lines
    assert ["expected", "a", "retained", "file", "of", "kind", "predictions"] in lines
