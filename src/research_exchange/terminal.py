"""What `rx` shows in a terminal: a run while it goes on, and what the Exchange makes of it."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from research_exchange.documents.fields import as_mapping, is_number

Json = Mapping[str, Any]

VERDICT_STYLES = {"supported": "bold green", "refuted": "bold red", "inconclusive": "bold yellow"}
STATUS_STYLES = {"passed": "green", "failed": "red", "unverified": "yellow", "unknown": "yellow"}


class LiveView(Protocol):
    """Shows updates as they come."""

    def show(self, update: Json) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def live_view(console: Console) -> LiveView:
    """A moving bar in a terminal; a plain line per step elsewhere."""
    return BarView(console) if console.is_terminal else LineView(console)


class LineView:
    """One line per step, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def show(self, update: Json) -> None:
        for line in _remarks(update):
            self._print(line)
        if step := _step(update):
            self._print(f"step {step['step']}/{step['steps']}  " + "  ".join(_readings(step)))

    def _print(self, line: str) -> None:
        self._console.print(_plain(line), soft_wrap=True)


class BarView:
    """A progress bar with the latest readings under what was said so far."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[readings]}"),
            console=console,
        )
        self._bar: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, update: Json) -> None:
        for line in _remarks(update):
            self._progress.console.print(_plain(line))
        if step := _step(update):
            if self._bar is None:
                self._bar = self._progress.add_task("", total=step["steps"], readings="")
            self._progress.update(self._bar, completed=step["step"], readings="  ".join(_readings(step)))


def _remarks(update: Json) -> list[str]:
    """What an update says besides its step: its summary, and the scores of arms that are finished."""
    remarks = [update["summary"]] if isinstance(update.get("summary"), str) else []
    for arm, metrics in as_mapping(as_mapping(update.get("metrics")).get("arms")).items():
        remarks += [f"{arm}: {name} {value:.3f}" for name, value in as_mapping(metrics).items() if is_number(value)]
    return remarks


def _step(update: Json) -> Json | None:
    """The numbers of a step; what a script posts in the place of a number is not shown."""
    metrics = {name: value for name, value in as_mapping(update.get("metrics")).items() if is_number(value)}
    return metrics if {"step", "steps"} <= metrics.keys() else None


def _readings(step: Json) -> list[str]:
    """The readings that a training step usually has, those that it does have."""
    shown = {
        "reward": "reward {:.3f}",
        "loss": "loss {:+.4f}",
        "tokens_per_second": "{:.0f} tokens/s",
    }
    readings = [form.format(step[name]) for name, form in shown.items() if name in step]
    if "seconds_left" in step:
        readings.append(f"{clock(step['seconds_left'])} left")
    return readings


def clock(seconds: float) -> str:
    """minutes:seconds"""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


# --- What the Exchange makes of a run ---


def heading(title: str, run_id: str, page: str) -> Text:
    """What is about to happen, and where to watch it."""
    return _plain(f"Running {title} as {run_id}\nIts page: {page}")


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
        lines.append(_plain(f"The script's own words: {log}"))
    lines += [
        _plain(f"{len(record['evidence'])} files of evidence and every number: {page}"),
        "",
        _plain("What to try next", "bold"),
        _commands(
            (f"{rx} show {run_id}", "the run with its arms, gates and files"),
            (f"{rx} judge {run_id}", "recompute the verdict from the evidence as it is now"),
            (f"{rx} run SPEC", "your own: copy the folder of this spec, change what you want to know"),
        ),
    ]
    return Panel(Group(*lines), title=_verdict(judgment), border_style=_verdict_style(judgment), padding=(1, 2))


def judgment_report(judgment: Json) -> RenderableType:
    """Verdict, effect, gates and whatever stands against it."""
    parts: list[RenderableType] = [
        Text.assemble("Recorded: ", _verdict(judgment), _plain(f" ({judgment['label']}). {judgment['explanation']}")),
        _plain(f"Reported by the script: {judgment['reported_verdict'] or 'no verdict'}."),
        "",
        *_criteria(judgment["decision"] or {}),
        _gates(judgment["gates"]),
    ]
    parts += _list("Withheld because", [objection["text"] for objection in judgment["withheld_because"]])
    withholding = [gate for gate in judgment["gates"] if gate["gate"] in judgment["withholding_gates"]]
    parts += _list("What is wrong", [problem["text"] for gate in withholding for problem in gate["problems"]])
    return Group(*parts)


def _list(title: str, entries: Sequence[str]) -> list[RenderableType]:
    return ["", _plain(title, "bold yellow"), *(_plain(f"- {entry}") for entry in entries)] if entries else []


def run_report(record: Json) -> RenderableType:
    """A run: its state, its arms, its judgment on record and its files."""
    state, recorded = record["state"], record["recorded"]
    parts: list[RenderableType] = [
        _plain(record["title"], "bold"),
        _plain(f"{record['id']} of {record['spec_id']}: {state['status']}"),
    ]
    if state["summary"]:
        parts.append(_plain(state["summary"]))
    parts += ["", _arms(state["arms"])] if state["arms"] else []
    parts += ["", judgment_report(recorded) if recorded else _plain("Nothing is recorded yet: the run has not ended.")]
    parts += ["", _files(record["evidence"])]
    return Group(*parts)


def runs_table(runs: Sequence[Json]) -> RenderableType:
    return _table(("run", "started", "title"), [(run["id"], run["created_at"], run["title"]) for run in runs])


def _criteria(decision: Json) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for criterion in decision.get("criteria", ()):
        confidence = f"{100 * (1 - decision['alpha']):g} %"
        lines.append(
            _plain(
                f"{criterion['id']}: effect {criterion['effect']:+.3f}, {confidence} interval "
                f"[{criterion['lower']:+.3f}, {criterion['upper']:+.3f}], margin {criterion['margin']:+g} "
                f"-> {criterion['state']} (n = {criterion['n']})"
            )
        )
        lines.append(_plain("  " + ", ".join(f"{arm} {mean:.3f}" for arm, mean in criterion["means"].items())))
    return [*lines, ""] if lines else []


def _gates(gates: Sequence[Json]) -> Table:
    rows = [
        (gate["gate"], _plain(gate["status"], STATUS_STYLES.get(gate["status"], "dim")), gate["reason"])
        for gate in gates
    ]
    return _table(("gate", "state", "why"), rows)


def _arms(arms: Mapping[str, Json]) -> Table:
    rows = [(arm, name, f"{history['value']:g}") for arm, metrics in arms.items() for name, history in metrics.items()]
    return _table(("arm", "metric", "value"), rows)


def _files(files: Sequence[Json]) -> Table:
    rows = [(file["name"], file["kind"], str(file["size"]), file["sha256"][:12]) for file in files]
    return _table(("evidence", "kind", "bytes", "sha256"), rows)


def _commands(*commands: tuple[str, str]) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(no_wrap=True)
    table.add_column()
    for command, meaning in commands:
        table.add_row(_plain(f"  {command}", "cyan"), meaning)
    return table


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else _plain(cell) for cell in row))
    return table


def _verdict(judgment: Json) -> Text:
    verdict = judgment["recorded_verdict"] or "open"
    return _plain(f"{verdict}, withheld" if judgment["withheld"] else verdict, _verdict_style(judgment))


def _verdict_style(judgment: Json) -> str:
    return VERDICT_STYLES.get(judgment["recorded_verdict"], "dim")


def _plain(line: str, style: str = "") -> Text:
    """Text as it stands: what a spec or a script says is neither markup nor a control sequence."""
    return Text("".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in line), style=style)
