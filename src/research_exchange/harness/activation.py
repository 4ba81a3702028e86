"""The activation pilot: what a few steps in the exact regime show, on record before any full training (R-122)."""

from collections.abc import Mapping

from research_exchange.client import GateReading, Run

__all__ = ["publish_pilot"]

_GATE = "activation_gate"


def publish_pilot(run: Run, values: Mapping[str, float | str], *, note: str) -> GateReading:
    """Report what the pilot measured, apart from the metrics, and ask whether the full training may start.

    Args:
        values: By the names that the spec's checks give them; more than these are kept and not judged (R-126).
        note: How they were measured.
    """
    run.update(activation_calibration={"values": dict(values), "note": note})
    return run.gate(_GATE)
