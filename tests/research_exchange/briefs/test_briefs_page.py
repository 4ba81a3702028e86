"""The reference page about briefs says what the code does."""

import re
import textwrap
from dataclasses import fields
from pathlib import Path

from research_exchange.briefs import PROFILE_NAMES, SECTIONS, BriefInput
from tests.research_exchange.briefs.cases import original

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "briefs.md").read_text(encoding="utf-8")


def rows(head: str) -> list[str]:
    """The first column of the table under a head row."""
    table = PAGE.split(f"\n{head}\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| ([^|-][^|]*?) \|", table, re.MULTILINE)


def test_the_sections_are_listed_in_order() -> None:
    assert rows("| section | left out if |") == [section.heading for section in SECTIONS]


def test_every_profile_is_listed() -> None:
    assert rows("| profile | service | reports through |") == [f"`{name}`" for name in PROFILE_NAMES]


def test_the_example_renders_a_brief() -> None:
    code = next(block for block in re.findall(r"(?:^    .*\n|^\n)+", PAGE, re.MULTILINE) if "render_brief(" in block)
    names: dict[str, object] = {"raw": original("score_centering").raw}
    exec(textwrap.dedent(code), names)
    assert str(names["text"]).startswith("# Score centering")


def test_every_input_is_explained() -> None:
    named = {name for row in rows("| input | meaning |") for name in re.findall(r"`(\w+)`", row)}
    assert named == {field.name for field in fields(BriefInput)}
