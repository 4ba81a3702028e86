"""One run, or several at once, while they go on."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from research_exchange.documents.fields import as_mapping, is_number
from research_exchange.terminal.words import Json, literal


class LiveView(Protocol):
    """Shows updates as they come; where there are several runs, `run` says whose."""

    def show(self, update: Json, run: str = "") -> None: ...

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

    def show(self, update: Json, run: str = "") -> None:
        for line in update_lines(update):
            self._console.print(literal(_said(line, run)), soft_wrap=True)


class BarView:
    """A progress bar for each run, with its latest readings, under what was said so far."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[readings]}"),
            console=console,
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, update: Json, run: str = "") -> None:
        for line in _remarks(update):
            self._progress.console.print(literal(_said(line, run)))
        if step := _step(update):
            if run not in self._bars:
                self._bars[run] = self._progress.add_task(_said("", run), total=step["steps"], readings="")
            self._progress.update(self._bars[run], completed=step["step"], readings="  ".join(_readings(step)))


def update_lines(update: Json) -> list[str]:
    """What an update says, in lines: its summary, the scores of finished arms, and the readings of a training step."""
    step = _step(update)
    steps = [f"step {step['step']}/{step['steps']}  " + "  ".join(_readings(step))] if step else []
    return [*_remarks(update), *steps]


def _said(line: str, run: str) -> str:
    """With the run that it is about, where that has to be said."""
    return f"{run}  {line}" if run else line


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


def heading(title: str, run_id: str, page: str) -> Text:
    """What is about to happen, and where to watch it."""
    return literal(f"Running {title} as {run_id}\nIts page: {page}")
