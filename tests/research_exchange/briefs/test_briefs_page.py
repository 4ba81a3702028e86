"""The reference page about briefs says what the code does."""

import re
from dataclasses import fields
from pathlib import Path

from research_exchange.briefs import PROFILE_NAMES, SECTIONS, BriefInput

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "briefs.md").read_text(encoding="utf-8")


def rows(head: str) -> list[str]:
    """The first column of the table under a head row."""
    table = PAGE.split(f"\n{head}\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| ([^|-][^|]*?) \|", table, re.MULTILINE)


def test_the_sections_are_listed_in_order() -> None:
    assert rows("| section | left out if |") == [section.heading for section in SECTIONS]


def test_every_profile_is_listed() -> None:
    assert rows("| profile | service | reports through |") == [f"`{name}`" for name in PROFILE_NAMES]


def test_every_input_is_explained() -> None:
    named = {name for row in rows("| input | meaning |") for name in re.findall(r"`(\w+)`", row)}
    assert named == {field.name for field in fields(BriefInput)}
