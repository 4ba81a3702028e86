"""The pages that tell users about losses, optimizers and plugins say what there is."""

import re
import textwrap
from pathlib import Path

from spindle.backends.graphs import interpreter, parsing
from spindle.backends.losses import LOSSES, UNPUBLISHED_LOSSES
from spindle.backends.optimizers import FAMILIES, UNPUBLISHED_FAMILIES, Hyperparameter

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = (DOCS / "reference/losses-and-optimizers.md").read_text(encoding="utf-8")
PLUGINS = (DOCS / "how-to/plugins.md").read_text(encoding="utf-8")


def _rows() -> dict[str, list[str]]:
    """Cells of each table row whose first cell is a name."""
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", REFERENCE, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}


def test_the_reference_lists_every_loss_with_its_settings() -> None:
    rows = _rows()
    for name, loss in LOSSES.items():
        inputs, settings, _ = rows[name]
        assert inputs == ", ".join(f"`{key}`" for key in loss.inputs)
        assert settings == (", ".join(f"`{key}` {value}" for key, value in loss.defaults.items()) or "none")
    assert rows.keys() == {"loss_fn", *LOSSES, "custom", *FAMILIES}


def test_the_reference_lists_every_hyperparameter_with_its_default() -> None:
    def listed(hyperparameters: list[Hyperparameter]) -> str:
        return ", ".join(f"`{known.name}` {known.default}" for known in hyperparameters).replace("1e-05", "0.00001")

    for name, family in FAMILIES.items():
        free, fixed = _rows()[name]
        assert free == listed([known for known in family.hyperparameters if not known.fixed])
        assert fixed == listed([known for known in family.hyperparameters if known.fixed])


def test_the_reference_says_what_is_refused_and_where_graphs_end() -> None:
    for name in (*UNPUBLISHED_LOSSES, *UNPUBLISHED_FAMILIES):
        assert f"`{name}` is refused" in REFERENCE
    for limit in (interpreter.MOST_ELEMENTS, interpreter.MOST_MEMORY):
        assert f"{limit:,} " in REFERENCE.replace("33,554,432,", "33,554,432 ")
    assert f"up to {parsing.MOST_NODES} nodes" in REFERENCE
    assert f"{interpreter.SECONDS:g} seconds" in REFERENCE


def test_the_example_on_the_page_is_the_tested_one() -> None:
    source = Path(__file__).with_name("example_plugin.py").read_text(encoding="utf-8")
    assert textwrap.indent(source, "    ").rstrip() in PLUGINS
