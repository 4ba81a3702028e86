"""The commands that a spec alone is enough for: `rx lint`, `rx power`, `rx brief`, `rx schema`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research_exchange.cli.console import (
    NOT_CHECKED,
    NOT_WELL,
    WELL,
    AsJson,
    SpecPath,
    UsageProblem,
    display,
    print_json,
    read_bytes,
)
from research_exchange.cli.exchange import SPEC_ID, Address, Data, connected_exchange

if TYPE_CHECKING:
    from research_exchange.briefs import BriefInput
    from research_exchange.documents.spec import Spec


def lint(spec: SpecPath, as_json: AsJson = False) -> None:
    """Read a spec as a reviewer would, before anybody spends an hour on it.

    Ends with 1 when it finds an error; warnings and questions alone leave it at 0.
    """
    from research_exchange.cli.spec_file import read_spec
    from research_exchange.documents.plain import plain
    from research_exchange.lint import Level
    from research_exchange.lint import lint as find
    from research_exchange.terminal.findings import lint_report

    document = read_spec(spec)
    findings = find(document)
    counted = Counter(finding.level for finding in findings)
    counts = {level.value: counted[level] for level in Level}
    display(
        {"title": document.title, "counts": counts, "findings": [plain(finding) for finding in findings]},
        lint_report,
        as_json,
    )
    raise typer.Exit(NOT_WELL if counted[Level.ERROR] else WELL)


def power(
    spec: SpecPath,
    items: Annotated[int | None, typer.Option(min=1, help="Items per arm; by default what the spec says.")] = None,
    as_json: AsJson = False,
) -> None:
    """What the spec's decision rule can tell: the wins it takes, and how probable each verdict is.

    Ends with 1 when a verdict cannot come out at all, and with 3 when there is no rule that can be applied.
    """
    from research_exchange.cli.spec_file import read_spec
    from research_exchange.power import power_card
    from research_exchange.terminal.power import power_report

    document = read_spec(spec)
    card = power_card(document, n=items)
    display({"title": document.title, **card.to_json()}, power_report, as_json)
    if False in (card.can_support, card.can_refute):
        raise typer.Exit(NOT_WELL)
    raise typer.Exit(NOT_CHECKED if card.problems or None in (card.can_support, card.can_refute) else WELL)


def brief(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="The spec's JSON file, or a version on an Exchange (exp_…).")
    ],
    profile: Annotated[
        str, typer.Option(help="The training service it is written for: modal-spindle, spindle or tinker.")
    ] = "spindle",
    run_id: Annotated[
        str | None, typer.Option("--run", help="The run that it is for, by its id; else a blank one.")
    ] = None,
    mode: Annotated[str, typer.Option(help="Of a file: ordinary, or redo.")] = "ordinary",
    spec_id: Annotated[str, typer.Option(help="Of a file: the id of the spec version.")] = "exp_0000000000",
    idea: Annotated[
        Path | None, typer.Option(metavar="IDEA.json", help="Of a file: the idea, with title, summary, source, triage.")
    ] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write the brief that a runner of this spec gets, in Markdown.

    In a terminal it is laid out; piped, it is the very text.
    """
    from research_exchange.terminal.findings import print_brief

    if SPEC_ID.fullmatch(spec):
        with connected_exchange(data, exchange) as connected:
            written: Mapping[str, Any] = connected.brief(spec, run_id=run_id, profile=profile)
    else:
        written = _brief_of_file(Path(spec), profile, mode, spec_id, run_id or "run_0000000000", idea)
    if as_json:
        print_json(written)
    else:
        print_brief(written["brief"])


def _brief_of_file(
    spec: Path, profile: str, mode: str, spec_id: str, run_id: str, idea: Path | None
) -> Mapping[str, Any]:
    """The brief, with what it was made from."""
    from hashlib import sha256

    from research_exchange.briefs import render_brief
    from research_exchange.cli.spec_file import read_spec

    text = render_brief(_brief_input(read_spec(spec), profile, mode, spec_id, run_id, idea))
    made_from = {"profile": profile, "launch_mode": mode, "spec_id": spec_id, "run_id": run_id}
    return {**made_from, "sha256": sha256(text.encode()).hexdigest(), "brief": text}


def schema(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name; without one they are listed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a document, or list the schemas."""
    from research_exchange.schemas import SCHEMAS, schema_text

    if name is None:
        from research_exchange.terminal.findings import schemas_table

        display(SCHEMAS, schemas_table, as_json)
    elif name in SCHEMAS:
        typer.echo(schema_text(name), nl=False)
    else:
        raise UsageProblem(f"There is no schema {name}; there are {', '.join(SCHEMAS)}.")


def _brief_input(spec: "Spec", profile: str, mode: str, spec_id: str, run_id: str, idea: Path | None) -> "BriefInput":
    """Raises UsageProblem for a word or a file that cannot be used."""
    from research_exchange.briefs import BriefInput, service_profile
    from research_exchange.documents.idea import IdeaContext
    from research_exchange.documents.json import DocumentError
    from research_exchange.documents.launch import LaunchMode
    from research_exchange.feasibility import check_feasibility

    if mode not in set(LaunchMode):
        raise UsageProblem(f"There is no launch mode {mode}; there are {', '.join(LaunchMode)}.")
    try:
        context = None if idea is None else IdeaContext.parse(read_bytes(idea, "the idea's JSON file"))
    except DocumentError as error:
        raise UsageProblem(f"{idea} is not an idea: {error}") from None
    try:
        return BriefInput(
            spec=spec,
            spec_id=spec_id,
            run_id=run_id,
            launch_mode=LaunchMode(mode),
            profile=service_profile(profile),
            context=context,
            feasibility_check=check_feasibility(spec, None).to_json(),
        )
    except ValueError as error:
        raise UsageProblem(f"{error}") from None
