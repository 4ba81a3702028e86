"""`python -m benchmarks [NAME ...]`: one table, each row the same work done here and by a peer."""

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks import exchange, launch, machine, rules, sampling, training
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

OF_THE_EXCHANGE: dict[str, tuple[str, Callable[[], list[Comparison]]]] = {
    "rules": ("The rules of the Exchange, one thread", rules.run),
    "exchange": ("The Exchange as a service, on this disk", exchange.run),
}
"""Each with the title of its table."""

BENCHMARKS = (*ON_A_MODEL, *OF_THE_EXCHANGE)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all, and print a table for each side of the house."""
    if unknown := set(names) - set(BENCHMARKS):
        raise SystemExit(f"No benchmark is called {', '.join(sorted(unknown))}; there is {', '.join(BENCHMARKS)}.")
    console = Console()
    wanted = names or BENCHMARKS
    if ours := [name for name in wanted if name in ON_A_MODEL]:
        _run_on_a_model(ours, console)
    for name in [name for name in wanted if name in OF_THE_EXCHANGE]:
        title, run = OF_THE_EXCHANGE[name]
        console.print(f"Running {name} ...", style="dim")
        table = _table(title, "the Exchange")
        _add(table, run())
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
