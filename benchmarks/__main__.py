"""`python -m benchmarks [NAME ...]`: one table, each row the same work done here and by a peer."""

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks import launch, machine, rules, sampling, training
from benchmarks.comparison import THREADS, Comparison
from spindle.backends import models
from spindle.backends.models import InstalledModel

ON_A_MODEL: dict[str, Callable[[InstalledModel, machine.Machine], list[Comparison]]] = {
    "training": training.run,
    "sampling": sampling.run,
    "grpo": sampling.grpo,
    "launch": launch.run,
}
"""Spindle's, on the default model."""

OF_DOCUMENTS: dict[str, Callable[[], list[Comparison]]] = {"rules": rules.run}
"""The Exchange's."""

BENCHMARKS = (*ON_A_MODEL, *OF_DOCUMENTS)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all, and print a table for each side of the house."""
    if unknown := set(names) - set(BENCHMARKS):
        raise SystemExit(f"No benchmark is called {', '.join(sorted(unknown))}; there is {', '.join(BENCHMARKS)}.")
    console = Console()
    wanted = names or BENCHMARKS
    if ours := [name for name in wanted if name in ON_A_MODEL]:
        _run_on_a_model(ours, console)
    if ours := [name for name in wanted if name in OF_DOCUMENTS]:
        table = _table("The rules of the Exchange, one thread", "the Exchange")
        for name in ours:
            console.print(f"Running {name} ...", style="dim")
            _add(table, OF_DOCUMENTS[name]())
        console.print(table)


def _run_on_a_model(names: list[str], console: Console) -> None:
    model = models.pull(models.DEFAULT_MODEL, models.cache_directory())
    rates = machine.measure()
    console.print(
        f"fp32 matmul: {rates.large:.0f} GFLOP/s large, {rates.decode:.0f} with 64 rows, "
        f"{rates.decode_head:.0f} with 64 rows at the head"
    )
    table = _table(f"{model.name}, rank 32, fp32, {THREADS} threads", "Spindle")
    for name in names:
        console.print(f"Running {name} ...", style="dim")
        _add(table, ON_A_MODEL[name](model, rates))
    console.print(table)


def _table(title: str, ours: str) -> Table:
    table = Table("work", ours, "peer", "unit", "ratio", "target", "bound", "peer is", box=None)
    table.title = title
    return table


def _add(table: Table, rows: list[Comparison]) -> None:
    for row in rows:
        table.add_row(*_cells(row))


def _cells(row: Comparison) -> list[str]:
    digits = 2 if row.unit == "GiB" else 1 if row.unit == "s" else 0
    sign = "≤" if row.less_is_better else "≥"
    target = f"{sign} {row.target:.2f} {'met' if row.met else 'MISSED'}"
    bound = "" if row.bound is None else f"{row.bound:.0f}"
    figures = [f"{row.ours:.{digits}f}", f"{row.theirs:.{digits}f}", row.unit, f"{row.ratio:.2f}"]
    return [row.work, *figures, target, bound, row.peer]


if __name__ == "__main__":
    main(sys.argv[1:])
