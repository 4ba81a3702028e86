"""What a script does with the Exchange's reading of a gate: it goes on, or it ends the run with the reason."""

from collections.abc import Iterator
from contextlib import contextmanager

from research_exchange.client import GateReading, Run
from research_exchange.harness.errors import HarnessError

__all__ = ["GateStopped", "must_pass", "stop_at", "stopped_runs_end"]


class GateStopped(Exception):
    """A gate does not let the run go on."""

    def __init__(self, gate: GateReading) -> None:
        super().__init__(f"{gate.gate} is {gate.status}")
        self.gate = gate


def must_pass(gate: GateReading) -> None:
    """Go on where the gate allows it.

    Raises:
        GateStopped: it does not.
    """
    if not gate.may_go_on:
        raise GateStopped(gate)


def stop_at(run: Run, gate: GateReading, *, summary: str | None = None) -> None:
    """End a run that a gate does not let go on: inconclusive, with the gate's reason (R-123)."""
    run.finish(
        status="failed",
        outcome_reason="insufficient_evidence",
        summary=summary or f"The {gate.gate} gate stopped the run before training: it is {gate.status}.",
    )


@contextmanager
def stopped_runs_end(run: Run) -> Iterator[None]:
    """Around all that a script does: where a gate or a check stops it, the run ends with the reason."""
    try:
        yield
    except GateStopped as stopped:
        stop_at(run, stopped.gate)
    except HarnessError as error:
        run.finish(status="failed", outcome_reason="incomplete_execution", summary=str(error))
