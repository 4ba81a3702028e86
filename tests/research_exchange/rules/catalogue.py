"""The page of the catalogue of lies: `python -m tests.research_exchange.rules.catalogue` writes it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from research_exchange.experiment_features import CHECKS
from tests.research_exchange.rules.lies import CATALOGUE, LIES

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "lies.md"
GATES = (*CHECKS, "decision")
INTRODUCTION = """\
# Lies, and who catches them

A verdict is worth as much as the lies that it withstands. These are the ones that the Exchange is tried with: each
takes an honest run, changes something in it, and still reports `supported`. Each must be caught by the gate that owns
it, with the rule that it breaks; then `inconclusive` is recorded, and the problem says what to do. The other way round,
every check of the gates is taken away once, left out or silenced, and then one of these lies gets through: the verdict
is believed, nothing is recorded, or the gate passes. No check is decoration, and there are no exceptions to that.

The catalogue is data, in `tests/vectors/lies.json`: JSON patches of a run document, which `rx judge` reads. To try one
of your own, take a run document, change it, and judge it.

What no gate can catch: numbers that a runner makes up with care, all of them consistent with one another. A gate says
"as reported" where nothing else is shown; only a verified receipt makes a value `attested`.
"""
OUTCOMES = {
    "changed_experiment": "another hypothesis was tested",
    "incomplete_execution": "the execution is incomplete",
    "report": "the report contradicts itself",
    "decision": "the recomputed decision is inconclusive",
    "mismatch": "the recomputed decision is another one",
    "learning_rate_edge": "the learning rate is at the edge of its grid",
}


def page() -> str:
    """The whole page in Markdown."""
    by_gate = {gate: [lie for lie in LIES if lie.get("gate") == gate] for gate in GATES}
    parts = [INTRODUCTION, _runs()]
    for gate, lies in by_gate.items():
        parts.append(f"## Caught by [{gate}](gates/{gate}.md)\n\n{_table(lies, 'Rule', 'rule')}")
    outcomes = [{**lie, "why": OUTCOMES[lie["basis"]]} for lie in LIES if "basis" in lie]
    parts.append(f"## Caught when everything is put together\n\n{_table(outcomes, 'Inconclusive, because', 'why')}")
    flags = [lie for lie in LIES if "flag" in lie]
    text = "The verdict does not rest on these; the page of the run says what was told."
    parts.append(f"## Shown to the reader\n\n{text}\n\n{_table(flags, 'Flag', 'flag')}")
    return "\n".join(parts)


def _runs() -> str:
    rows = "\n".join(f"| `{name}` | {base['about']} |" for name, base in CATALOGUE["bases"].items())
    return f"## The honest runs\n\n| Run | What it is |\n|---|---|\n{rows}\n"


def _table(lies: Sequence[Mapping[str, Any]], heading: str, key: str) -> str:
    return "\n".join([f"| Lie | Run | {heading} |", "|---|---|---|", *_rows(lies, key)]) + "\n"


def _rows(lies: Sequence[Mapping[str, Any]], key: str) -> Iterator[str]:
    for lie in lies:
        yield f"| {lie['lie']} | `{lie['base']}` | {lie[key]} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
