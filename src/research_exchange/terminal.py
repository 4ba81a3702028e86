"""What `rx` shows in a terminal: a run while it goes on, and what the Exchange makes of it."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

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
        self._console.print(Text(line), soft_wrap=True)


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
            self._progress.console.print(Text(line))
        if step := _step(update):
            if self._bar is None:
                self._bar = self._progress.add_task("", total=step["steps"], readings="")
            self._progress.update(self._bar, completed=step["step"], readings="  ".join(_readings(step)))


def _remarks(update: Json) -> list[str]:
    """What an update says besides its step: its summary, and the scores of arms that are finished."""
    remarks = [update["summary"]] if isinstance(update.get("summary"), str) else []
    for arm, metrics in (update.get("metrics") or {}).get("arms", {}).items():
        remarks += [f"{arm}: {name} {value:.3f}" for name, value in metrics.items()]
    return remarks


def _step(update: Json) -> Json | None:
    metrics = update.get("metrics") or {}
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
