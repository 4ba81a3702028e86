"""`rx ideas` and `rx idea …`: from a thought to a draft, and `rx save`: from a draft to a version that can run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from research_exchange.cli.console import AsJson, Limit, Offset, SpecPath, UsageProblem, display, print_json, read_bytes
from research_exchange.cli.exchange import Address, Data, connected_exchange, id_of

idea = typer.Typer(help="An idea: save it, say it anew, sort it, and draft a spec from it.", no_args_is_help=True)

_IdeaId = Annotated[
    str,
    typer.Argument(
        metavar="IDEA", help="The idea's id: idea_ and 10 hexadecimal digits.", callback=id_of("idea", "idea_")
    ),
]
_Summary = Annotated[str | None, typer.Option(help="What it is about, in a few sentences.")]
_Source = Annotated[str | None, typer.Option(help="Where it comes from: an address.")]
_Triage = Annotated[str | None, typer.Option(help="What is to become of it, and why.")]


def ideas(
    limit: Limit = 50, offset: Offset = 0, data: Data = None, exchange: Address = None, as_json: AsJson = False
) -> None:
    """List the newest ideas."""
    from research_exchange.terminal.ideas import ideas_table

    with connected_exchange(data, exchange) as connected:
        page = connected.ideas(limit=limit, offset=offset)
    display(page, ideas_table, as_json)


@idea.command()
def add(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="A line that says what it is about.")],
    summary: _Summary = None,
    source: _Source = None,
    triage: _Triage = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Save an idea."""
    from research_exchange.terminal.ideas import idea_report

    texts = {"summary": summary, "source_url": source, "triage": triage}
    with connected_exchange(data, exchange) as connected:
        added = connected.add_idea(title, **{name: text for name, text in texts.items() if text is not None})
        saved = connected.idea(added["id"])
    display(saved, idea_report, as_json)


@idea.command("show")
def show_idea(idea_id: _IdeaId, data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """Show an idea with what was said before and the versions that were made from it."""
    from research_exchange.terminal.ideas import idea_report

    with connected_exchange(data, exchange) as connected:
        saved = connected.idea(idea_id)
    display(saved, idea_report, as_json)


@idea.command()
def edit(
    idea_id: _IdeaId,
    title: Annotated[str | None, typer.Option(help="A line that says what it is about.")] = None,
    summary: _Summary = None,
    source: _Source = None,
    triage: _Triage = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Say an idea anew. What is left out stays; what was said before stays on record, and versions keep it."""
    from research_exchange.terminal.ideas import idea_report

    texts = {"title": title, "summary": summary, "source_url": source, "triage": triage}
    said = {name: text or None for name, text in texts.items() if text is not None}
    if not said:
        raise UsageProblem('Say what is to be different: --title, --summary, --source or --triage ("" empties it).')
    with connected_exchange(data, exchange) as connected:
        connected.revise_idea(idea_id, **said)
        saved = connected.idea(idea_id)
    display(saved, idea_report, as_json)


@idea.command("triage")
def triage_idea(
    idea_id: _IdeaId,
    note: Annotated[str, typer.Argument(metavar="NOTE", help="What is to become of it, and why.")],
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Note what is to become of an idea. Briefs of its versions show the note."""
    from research_exchange.terminal.ideas import idea_report

    with connected_exchange(data, exchange) as connected:
        connected.revise_idea(idea_id, triage=note)
        saved = connected.idea(idea_id)
    display(saved, idea_report, as_json)


@idea.command()
def draft(
    idea_id: _IdeaId,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; by default, and with -, to stdout.")
    ] = Path("-"),
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Draft a spec from an idea, and say what it lacks. `rx save` makes a version of it once it is complete."""
    from research_exchange.terminal.findings import lint_report

    with connected_exchange(data, exchange) as connected:
        drafted = connected.draft(idea_id)
    if as_json:
        print_json(drafted)
        return
    text = json.dumps(drafted["spec"], indent=2, ensure_ascii=False)
    if file == Path("-"):
        print(text)
        return
    _write_new(file, f"{text}\n")
    counts = dict.fromkeys(("error", "warning", "question"), 0)
    for finding in drafted["lint"]:
        counts[finding["level"]] += 1
    display({"title": drafted["spec"]["title"], "counts": counts, "findings": drafted["lint"]}, lint_report, as_json)


def save(
    spec: SpecPath,
    idea_id: Annotated[
        str | None, typer.Option("--idea", help="The idea that it is made from; by default its parent's.")
    ] = None,
    parent: Annotated[str | None, typer.Option(help="The version that it is made from.")] = None,
    legacy: Annotated[
        bool, typer.Option("--legacy", help="Admit what lint finds errors in, as a spec from before its rules.")
    ] = False,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Save a spec as an immutable version, without running it. The same bytes are the same version."""
    from research_exchange.terminal.ideas import saved_line

    raw = read_bytes(spec, "the spec's JSON file")
    with connected_exchange(data, exchange) as connected:
        about = connected.about_spec(connected.register(raw, legacy=legacy, idea_id=idea_id, parent=parent))
    display(about, saved_line, as_json)


def specs(
    limit: Limit = 50,
    offset: Offset = 0,
    idea_id: Annotated[str | None, typer.Option("--idea", help="Only those made from this idea.")] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """List the newest spec versions."""
    from research_exchange.terminal.ideas import specs_table

    with connected_exchange(data, exchange) as connected:
        page = connected.specs(limit=limit, offset=offset, idea_id=idea_id)
    display(page, specs_table, as_json)


def _write_new(path: Path, text: str) -> None:
    """Raises UsageProblem where it cannot be written, or something is there already."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageProblem(f"{path} is there already, and is left as it is; name another file.") from None
    except OSError as trouble:
        raise UsageProblem(f"{path} cannot be written: {trouble.strerror}.") from None
