"""`rx hooks` and `rx hook …`: whom the Exchange tells when a run ends or a gate fails."""

from typing import Annotated

import typer

from research_exchange.cli.console import AsJson, Limit, Offset, display
from research_exchange.cli.exchange import Address, Data, connected_exchange, id_of

hook = typer.Typer(help="A hook: add one, remove it, and see what became of its messages.", no_args_is_help=True)

_HookId = Annotated[
    str, typer.Argument(metavar="HOOK", help="Its id; `rx hooks` lists them.", callback=id_of("hook", "hook_"))
]


def hooks(
    limit: Limit = 50, offset: Offset = 0, data: Data = None, exchange: Address = None, as_json: AsJson = False
) -> None:
    """List whom the Exchange tells of what happens to runs."""
    from research_exchange.terminal.hooks import hooks_table

    with connected_exchange(data, exchange) as connected:
        listed = connected.hooks(limit=limit, offset=offset)
    display(listed, hooks_table, as_json)


@hook.command("add")
def add_hook(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="webhook, or slack to answer an idea's message there.")],
    url: Annotated[str | None, typer.Argument(metavar="URL", help="Where a webhook is told.")] = None,
    secret: Annotated[
        str | None,
        typer.Option(metavar="VARIABLE", help="The variable, RX_HOOK_…, that holds a webhook's secret at the server."),
    ] = None,
    events: Annotated[
        list[str] | None, typer.Option("--event", help="Tell of this only; may be given again. By default of all.")
    ] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Tell somebody from now on. The secret that signs a webhook's messages stays in the server's environment."""
    from research_exchange.terminal.hooks import hook_line

    with connected_exchange(data, exchange) as connected:
        added = connected.add_hook(kind, url=url, secret=secret, events=events or [])
    display(added, hook_line, as_json)


@hook.command("remove")
def remove_hook(hook_id: _HookId, data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """Tell nobody there any more. What it was told stays on record."""
    from research_exchange.terminal.hooks import hook_line

    with connected_exchange(data, exchange) as connected:
        removed = connected.remove_hook(hook_id)
    display(removed, hook_line, as_json)


@hook.command()
def deliveries(
    hook_id: _HookId,
    limit: Limit = 50,
    offset: Offset = 0,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """List what a hook was told or is to be told, and what became of it, the newest first."""
    from research_exchange.terminal.hooks import deliveries_table

    with connected_exchange(data, exchange) as connected:
        page = connected.deliveries(hook_id, limit=limit, offset=offset)
    display(page, deliveries_table, as_json)
