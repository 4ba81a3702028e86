"""What every command shares: exit codes, its common options, and the choice between tables and JSON."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

WELL, NOT_WELL, USAGE, NOT_CHECKED = 0, 1, 2, 3

MOST_MIB = 256
"""Of a file; all that a run may retain is 40 MiB, so that nothing sensible is larger."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many are listed at most.")]
Offset = Annotated[int, typer.Option(min=0, help="How many are passed over first.")]
SpecPath = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, a JSON file.")]

_Document = TypeVar("_Document")


class UsageProblem(Exception):
    """A command that was asked wrongly; the text is one sentence for a person."""


def display(document: _Document, draw: Callable[[_Document], "RenderableType"], as_json: bool) -> None:
    """Prints a JSON document, as it is or as `draw` lays it out."""
    if as_json:
        print_json(document)
        return
    from rich.console import Console

    Console(highlight=False).print(draw(document))


def print_json(document: Any) -> None:
    """Two spaces deep, key order kept."""
    print(json.dumps(document, indent=2))


def own_name() -> str:
    """`rx` where the shell finds it, else the path that was typed, such as .venv/bin/rx."""
    typed = Path(sys.argv[0])
    return "rx" if shutil.which("rx") or typed.name != "rx" else str(typed)


def read_bytes(path: Path, what: str) -> bytes:
    """A file's bytes. Raises UsageProblem where there are none; `what` says which file was wanted."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_MIB * 2**20 + 1)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read: {error.strerror}. Name {what}.") from None
    if len(content) > MOST_MIB * 2**20:
        raise UsageProblem(f"{path} has more than {MOST_MIB} MiB, so it cannot be meant. Name {what}.")
    return content


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all. Raises UsageProblem where it cannot be written."""
    incoming = path.with_name(f".{path.name}.incoming")
    try:
        incoming.write_bytes(content)
        incoming.replace(path)
    except OSError as trouble:
        incoming.unlink(missing_ok=True)
        raise UsageProblem(f"{path} cannot be written: {trouble.strerror}.") from None
