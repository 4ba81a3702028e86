"""`python -m benchmarks`: one table, each row the same work done here and by a peer."""

from rich.console import Console
from rich.table import Table

from benchmarks import sampling, training
from spindle.backends import models


def main() -> None:
    """Run every benchmark on the default model and print the table."""
    console = Console()
    model = models.pull(models.DEFAULT_MODEL, models.cache_directory())
    table = Table("work", "Spindle tok/s", "peer tok/s", "ratio", "peer", title=f"{model.name}, fp32, CPU", box=None)
    for benchmark in (training, sampling):
        console.print(f"Running {benchmark.__name__} ...", style="dim")
        for row in benchmark.run(model):
            table.add_row(row.work, f"{row.ours:.0f}", f"{row.theirs:.0f}", f"{row.ratio:.2f}", row.peer)
    console.print(table)


if __name__ == "__main__":
    main()
