"""`rx tokens`, `rx token …` and `rx audit`: who may do what, and who did what."""

from typing import Annotated

import typer

from research_exchange.cli.console import AsJson, Limit, Offset, display, print_json
from research_exchange.cli.exchange import Address, Data, connected_exchange, id_of

token = typer.Typer(help="A token: give one to a person, and revoke it.", no_args_is_help=True)


def tokens(
    limit: Limit = 50,
    offset: Offset = 0,
    run_id: Annotated[str | None, typer.Option("--run", help="Only those of this run.")] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """List the newest tokens: whose they are, what they may do, and until when. No secret is among it."""
    from research_exchange.terminal.access import tokens_table

    with connected_exchange(data, exchange) as connected:
        page = connected.tokens(limit=limit, offset=offset, run_id=run_id)
    display(page, tokens_table, as_json)


@token.command()
def give(
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="admin, researcher, reviewer, or runner (of one run, see --run).")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom or what it is for.")],
    run_id: Annotated[str | None, typer.Option("--run", help="The run that a runner may report to.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="How long it is good; by default for ever, a runner's 7.")
    ] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it alone on a line. This is the only time that anybody can read it."""
    with connected_exchange(data, exchange) as connected:
        given = connected.give_token(role, name, run_id=run_id, days=days)
    if as_json:
        print_json(given)
        return
    until = f" until {given['expires_at'][:16].replace('T', ' ')}" if given["expires_at"] else ""
    typer.echo(
        f"{given['id']} is good{until} as {given['role']} for {given['name']}. It is used as RX_TOKEN:", err=True
    )
    typer.echo(given["token"])


@token.command()
def revoke(
    token_id: Annotated[
        str,
        typer.Argument(metavar="TOKEN", help="Its id, tok_…; `rx tokens` lists them.", callback=id_of("token", "tok_")),
    ],
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Make a token useless from now on."""
    from research_exchange.terminal.access import revoked_line

    with connected_exchange(data, exchange) as connected:
        revoked = connected.revoke_token(token_id)
    display(revoked, revoked_line, as_json)


def audit(
    limit: Limit = 50,
    offset: Offset = 0,
    subject: Annotated[str | None, typer.Option(help="Only what was done to this: a run, an idea, a token.")] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who did what, the newest first."""
    from research_exchange.terminal.access import audit_table

    with connected_exchange(data, exchange) as connected:
        page = connected.audit(limit=limit, offset=offset, subject=subject)
    display(page, audit_table, as_json)
