"""`rx new`: what it makes is the experiment that the guide walks through, which a test runs, and it lints."""

import json
import re
from pathlib import Path

import pytest

from tests.research_exchange.cli.commands import Rx

GUIDE = (Path(__file__).parents[3] / "docs" / "how-to" / "write-an-experiment.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    text = GUIDE.partition("## When an experiment does more")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def without_blank_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_a_new_experiment_lints_without_an_error(rx: Rx, tmp_path: Path) -> None:
    folder = tmp_path / "my-experiment"
    made = rx("new", folder, "--model", "org/tiny")
    assert (made.code, made.err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "spec.json", "train.py"]
    assert rx("lint", folder / "spec.json").code == 0
    assert rx("power", folder / "spec.json").code == 0
    spec = json.loads((folder / "spec.json").read_text())
    assert (spec["title"], spec["base_model"]) == (
        "my-experiment: does tiny learn to write words in capitals?",
        "org/tiny",
    )
    assert (folder / "README.md").read_text().startswith("# my-experiment\n")


def test_its_files_are_those_of_the_guide(rx: Rx, tmp_path: Path) -> None:
    rx("new", tmp_path / "capitals")
    script = (tmp_path / "capitals" / "train.py").read_text()
    assert without_blank_lines(script) == without_blank_lines("".join(blocks("python")))
    (shown,) = map(json.loads, blocks("json"))
    spec = json.loads((tmp_path / "capitals" / "spec.json").read_text())
    assert {**spec, "title": ""} == {**shown, "title": ""}


def test_nothing_that_exists_is_changed(rx: Rx, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("mine")
    answer = rx("new", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "not empty" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]
    assert rx("new", tmp_path / "spec.json").code == 2


@pytest.mark.parametrize("name", ["..hidden", 'say "hello"', "a\nb"])
def test_a_name_that_is_none_is_refused(rx: Rx, tmp_path: Path, name: str) -> None:
    answer = rx("new", tmp_path / name)
    assert (answer.code, answer.out) == (2, "")
    assert not (tmp_path / name).exists()
