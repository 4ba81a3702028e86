"""`rx new`: an experiment to start from."""

import json
import re
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from research_exchange.cli.console import AsJson, UsageProblem, display, own_name

_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
_FILES = ("spec.json", "train.py", "README.md")


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make; its name is the experiment's.")],
    model: Annotated[
        str, typer.Option(help="The base model, by the name that the training service has for it.")
    ] = _MODEL,
    as_json: AsJson = False,
) -> None:
    """Start an experiment: a folder with a spec, its script and a README, ready to run and to be made your own.

    Nothing that exists is changed.
    """
    from research_exchange.terminal.scaffold import created_report

    name = folder.resolve().name
    if not re.fullmatch(r"\w[\w. -]*", name):
        raise UsageProblem(f"{name!r} is no name for an experiment; take letters, digits, dashes and underscores.")
    contents = {each: _template(each, name, model) for each in _FILES}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageProblem(f"{folder} is there already and not empty, and is left as it is; take another name.")
        for each, text in contents.items():
            (folder / each).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise UsageProblem(f"{folder} cannot be made: {trouble.strerror}.") from None
    display({"folder": str(folder), "files": list(_FILES)}, partial(created_report, rx=own_name()), as_json)


def _template(file: str, name: str, model: str) -> str:
    """A file of the scaffold for an experiment of this name."""
    text = (files("research_exchange") / "harness" / "scaffold" / file).read_text(encoding="utf-8")
    match file:
        case "spec.json":
            title = f"{name}: does {model.rpartition('/')[2]} learn to write words in capitals?"
            text = re.sub(r'(?<="title": )".*"', lambda _: json.dumps(title, ensure_ascii=False), text, count=1)
            return text.replace(json.dumps(_MODEL), json.dumps(model, ensure_ascii=False))
        case "README.md":
            return text.replace("{name}", name)
        case _:
            return text
