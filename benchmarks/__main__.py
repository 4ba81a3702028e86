"""`python -m benchmarks [NAME ...]`: one table, each row the same work done here and by a peer."""

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks import launch, machine, sampling, training
from benchmarks.comparison import THREADS, Comparison
from spindle.backends import models
from spindle.backends.models import InstalledModel

Benchmark = Callable[[InstalledModel, machine.Machine], list[Comparison]]

BENCHMARKS: dict[str, Benchmark] = {
    "training": training.run,
    "sampling": sampling.run,
    "grpo": sampling.grpo,
    "launch": launch.run,
}


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all, on the default model and print the table."""
    if unknown := set(names) - set(BENCHMARKS):
        raise SystemExit(f"No benchmark is called {', '.join(sorted(unknown))}; there is {', '.join(BENCHMARKS)}.")
    console = Console()
    model = models.pull(models.DEFAULT_MODEL, models.cache_directory())
    rates = machine.measure()
    console.print(
        f"fp32 matmul: {rates.large:.0f} GFLOP/s large, {rates.decode:.0f} with 64 rows, "
        f"{rates.decode_head:.0f} with 64 rows at the head"
    )
    table = Table("work", "Spindle", "peer", "unit", "ratio", "target", "bound", "peer is", box=None)
    table.title = f"{model.name}, rank 32, fp32, {THREADS} threads"
    for name in names or BENCHMARKS:
        console.print(f"Running {name} ...", style="dim")
        for row in BENCHMARKS[name](model, rates):
            table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Comparison) -> list[str]:
    digits = 2 if row.unit == "GiB" else 1 if row.unit == "s" else 0
    sign = "≤" if row.less_is_better else "≥"
    target = f"{sign} {row.target:.2f} {'met' if row.met else 'MISSED'}"
    bound = "" if row.bound is None else f"{row.bound:.0f}"
    figures = [f"{row.ours:.{digits}f}", f"{row.theirs:.{digits}f}", row.unit, f"{row.ratio:.2f}"]
    return [row.work, *figures, target, bound, row.peer]


if __name__ == "__main__":
    main(sys.argv[1:])
