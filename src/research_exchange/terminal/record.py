"""What is on record of a run: its verdict, what stands against it, its gates, arms and files."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from research_exchange.terminal.words import (
    VERDICT_STYLES,
    Json,
    commands,
    literal,
    paged,
    problems,
    section,
    status,
    table,
    title_line,
    when,
)


def verdict_panel(record: Json, *, page: str, rx: str = "rx", log: str | None = None) -> Panel:
    """The outcome on record of a run that has ended, and what to do with it.

    Args:
        record: the run as the API answers it.
        page: the address of its page.
        rx: the words that start this command from where the reader stands.
        log: where to look when the script did not end well.
    """
    judgment = record["recorded"]
    run_id = record["id"]
    lines: list[RenderableType] = [judgment_report(judgment), ""]
    if log is not None:
        lines.append(literal(f"The script's own words: {log}"))
    lines += [
        literal(f"{len(record['evidence'])} files of evidence and every number: {page}"),
        "",
        literal("What to try next", "bold"),
        commands(
            (f"{rx} show {run_id}", "the run with its arms, gates and files"),
            (f"{rx} judge {run_id}", "recompute the verdict from the evidence as it is now"),
            (f"{rx} new my-experiment", "start an experiment of your own"),
        ),
    ]
    return Panel(Group(*lines), title=_verdict(judgment), border_style=_verdict_style(judgment), padding=(1, 2))


def judgment_report(judgment: Json) -> RenderableType:
    """Verdict, effect, gates and whatever stands against it."""
    parts: list[RenderableType] = [
        Text.assemble("Recorded: ", _verdict(judgment), literal(f" ({judgment['label']}). {judgment['explanation']}")),
        literal(f"Reported by the script: {judgment['reported_verdict'] or 'no verdict'}."),
        "",
        *_criteria(judgment["decision"] or {}),
        gates_table(judgment["gates"]),
    ]
    objections = [literal(f"- {objection['text']}") for objection in judgment["withheld_because"]]
    return Group(*parts, *section("Withheld because", *objections), *what_is_wrong(judgment))


def what_is_wrong(judgment: Json) -> list[RenderableType]:
    """The problems of the gates that stand in the way; nothing where none does."""
    withholding = [gate for gate in judgment["gates"] if gate["gate"] in judgment["withholding_gates"]]
    entries = [problem for gate in withholding for problem in gate["problems"]]
    return section("What is wrong", *([problems(entries)] if entries else []))


def run_report(record: Json) -> RenderableType:
    """A run: its state, its arms, its judgment on record, what it did otherwise, its sessions and its files."""
    state, recorded = record["state"], record["recorded"]
    parts: list[RenderableType] = [
        title_line(record["title"]),
        literal(f"{record['id']} of {record['spec_id']}: {_standing(record)}"),
    ]
    if state["summary"]:
        parts.append(literal(state["summary"]))
    parts += ["", _arms(state["arms"])] if state["arms"] else []
    parts += ["", judgment_report(recorded) if recorded else literal("Nothing is recorded yet: the run has not ended.")]
    parts += section("Otherwise than the spec says", *_deviations(recorded["deviations"]["items"] if recorded else ()))
    parts += section("Sessions", *([_sessions(record["sessions"])] if record["sessions"] else []))
    parts += ["", _files(record["evidence"])]
    refused = (literal(f"  {file['name']}: {' '.join(file['problems'])}") for file in record["refused"])
    parts += section("Refused, and not stored", *refused)
    return Group(*parts)


def _standing(record: Json) -> str:
    """Its status, and what else decides whether it goes on."""
    words = [str(record["state"]["status"])]
    if record["redo_of"]:
        words.append(f"a repetition of {record['redo_of']}")
    if record["cancelled"]:
        words.append(f"cancelled by {record['cancelled']['by']}: {record['cancelled']['reason']}")
    return ", ".join(words)


def _deviations(items: Sequence[Json]) -> list[RenderableType]:
    rows = [
        (f"  {each['field']}", f"{each['original']} -> {each['effective']}", each["recording"], each["reason"])
        for each in items
    ]
    return [table(("  field", "change", "stated", "why"), rows)] if rows else []


def _sessions(sessions: Sequence[Json]) -> Table:
    rows = [
        (f"  {each['id']}", each["runner"], when(each["started_at"]), each["reason"] or "goes on") for each in sessions
    ]
    return table(("  session", "runner", "began", "ended"), rows, whole=("  session", "runner", "began"))


def runs_table(page: Json) -> RenderableType:
    """The runs on a page of them, each with where it stands and the verdict on record."""
    rows = [
        (run["id"], when(run["created_at"]), run["state"], _short_verdict(run), run["title"]) for run in page["runs"]
    ]
    columns = ("run", "created", "state", "verdict", "title")
    return paged(table(columns, rows, whole=("run", "created", "state", "verdict"), cut=("title",)), page, "runs")


def _short_verdict(run: Json) -> Text:
    verdict = run["recorded_verdict"]
    if verdict is None:
        return literal("withheld" if run["withheld"] else "", "dim")
    return literal(f"{verdict}, withheld" if run["withheld"] else verdict, VERDICT_STYLES.get(verdict, ""))


def decision_report(report: Json) -> RenderableType:
    """The decision of a run: each criterion with its effect, and the verdict that follows."""
    decision = report["decision"]
    parts: list[RenderableType] = [title_line(report["title"])]
    if decision is None:
        return Group(*parts, literal("The spec has no decision rule, so the verdict stays the runner's own."))
    verdict = decision["verdict"] or "open"
    reason = f" ({decision['outcome_reason']})" if decision["outcome_reason"] not in (None, verdict) else ""
    parts += [Text.assemble("Decided: ", literal(verdict, VERDICT_STYLES.get(verdict, "dim")), literal(reason)), ""]
    parts += _criteria(decision)
    if decision["problems"]:
        parts += section("What is wrong", problems(decision["problems"]))
    return Group(*parts)


def _criteria(decision: Json) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for criterion in decision.get("criteria", ()):
        confidence = 100 * (1 - criterion.get("alpha", decision["alpha"]))
        means = ", ".join(f"{arm} {mean:.3f}" for arm, mean in criterion["means"].items())
        lines += [
            literal(
                f"{criterion['id']}: effect {criterion['effect']:+.4f}, margin {criterion['margin']:+g} "
                f"-> {criterion['state']} (n = {criterion['n']})"
            ),
            literal(f"  {confidence:g} % interval [{criterion['lower']:+.4f}, {criterion['upper']:+.4f}]; {means}"),
        ]
    return [*lines, ""] if lines else []


def gates_table(gates: Sequence[Json]) -> Table:
    """Every gate with its state and one sentence on why; those that do not apply stand back."""
    rows = []
    for gate in gates:
        style = "dim" if gate["status"] == "not_applicable" else ""
        rows.append((literal(gate["gate"], style), status(gate["status"]), literal(gate["reason"], style)))
    return table(("gate", "state", "why"), rows, whole=("gate", "state"))


def _arms(arms: Mapping[str, Json]) -> Table:
    rows = [(arm, name, f"{history['value']:g}") for arm, metrics in arms.items() for name, history in metrics.items()]
    return table(("arm", "metric", "value"), rows, right=("value",))


def _files(files: Sequence[Json]) -> Table:
    rows = [(file["name"], file["kind"], str(file["size"]), file["sha256"][:12]) for file in files]
    return table(("evidence", "kind", "bytes", "sha256"), rows, right=("bytes",))


def _verdict(judgment: Json) -> Text:
    verdict = judgment["recorded_verdict"] or "open"
    return literal(f"{verdict}, withheld" if judgment["withheld"] else verdict, _verdict_style(judgment))


def _verdict_style(judgment: Json) -> str:
    return VERDICT_STYLES.get(judgment["recorded_verdict"], "dim")
