"""`rx compare` and `rx diff`: two runs held against each other, and two versions of a spec."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from research_exchange.cli.console import NOT_CHECKED, NOT_WELL, WELL, AsJson, display
from research_exchange.cli.exchange import RUN_ID, SPEC_ID, Address, Data, connected_exchange

if TYPE_CHECKING:
    from research_exchange.agreement import Side
    from research_exchange.client import Exchange
    from research_exchange.documents.spec import Spec

_Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or a bundle that rx export wrote.")]
_Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A spec's JSON file, or the id of a version (exp_…).")]


def compare(first: _Run, second: _Run, data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """Hold two runs against each other: whether the result came out again, and how far they are apart.

    Each is judged anew, here. Ends with 1 when they disagree, and with 3 when there is nothing that could be confirmed.
    """
    from research_exchange.agreement import Standing, agree
    from research_exchange.terminal.comparison import agreement_report

    with _exchange_for((first, second), RUN_ID, data, exchange) as connected:
        found = agree(_side(first, connected), _side(second, connected))
    display(found.to_json(), agreement_report, as_json)
    raise typer.Exit({Standing.AGREE: WELL, Standing.DISAGREE: NOT_WELL}.get(found.standing, NOT_CHECKED))


def diff(before: _Spec, after: _Spec, data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """Show what one version of a spec says otherwise than another.

    Ends with 1 when they differ.
    """
    from research_exchange.documents.differences import spec_diff
    from research_exchange.terminal.comparison import diff_report

    with _exchange_for((before, after), SPEC_ID, data, exchange) as connected:
        changes = spec_diff(_spec(before, connected), _spec(after, connected))
    display([change.to_json() for change in changes], diff_report, as_json)
    raise typer.Exit(NOT_WELL if changes else WELL)


@contextmanager
def _exchange_for(
    names: tuple[str, str], ids: re.Pattern[str], data: Path | None, url: str | None
) -> Iterator["Exchange | None"]:
    """The Exchange, where one of the names is an id that it knows; two files need none."""
    with ExitStack() as stack:
        is_asked = any(ids.fullmatch(name) for name in names)
        yield stack.enter_context(connected_exchange(data, url)) if is_asked else None


def _side(name: str, connected: "Exchange | None") -> "Side":
    """A run, judged. Raises UsageProblem where a bundle is none, or was changed."""
    from research_exchange.agreement import Side
    from research_exchange.cli.bundle_file import fetch_bundle, read_bundle
    from research_exchange.judgment import judge
    from research_exchange.updates import fold

    if connected is None or not RUN_ID.fullmatch(name):
        found = read_bundle(Path(name))
    else:
        found = fetch_bundle(connected, name)
    document = found.document
    judgment = judge(document.spec, document.updates, document.evidence, ended=document.ended)
    return Side(found.record.run.id, document.spec, fold(document.spec, document.updates), judgment)


def _spec(name: str, connected: "Exchange | None") -> "Spec":
    from research_exchange.cli.spec_file import read_spec
    from research_exchange.documents.spec import Spec

    if connected is None or not SPEC_ID.fullmatch(name):
        return read_spec(Path(name))
    return Spec.parse(connected.spec_bytes(name))
