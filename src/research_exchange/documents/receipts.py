"""Receipts: what a service signed about a run. Signatures are checked before; here are plain, verified records.

A value that a receipt states is `attested`: somebody other than the runner answers for it (R-215).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from research_exchange.documents.fields import is_same, show
from research_exchange.documents.gates import Flag, GateResult, Provenance
from research_exchange.documents.json import JsonValue

__all__ = ["Receipt", "attest", "contradictions", "is_attested"]


@dataclass(frozen=True)
class Receipt:
    """One verified statement about this very run; the caller has seen to both."""

    id: str
    values: Mapping[str, JsonValue]
    """By the names that reports use for them: `executed_base_model`, `metrics.arms.trained.accuracy`."""


def is_attested(name: str, value: JsonValue, receipts: Sequence[Receipt]) -> bool:
    """Whether a receipt states this very value under this name, types included."""
    return any(name in receipt.values and is_same(receipt.values[name], value) for receipt in receipts)


def attest(gate: GateResult, receipts: Sequence[Receipt]) -> GateResult:
    """The same result, with the declared values that a receipt states marked as attested."""
    attested = {
        name: Provenance.ATTESTED
        for name, value in gate.computed.items()
        if gate.provenance.get(name) is Provenance.DECLARED and is_attested(name, value, receipts)
    }
    return replace(gate, provenance={**gate.provenance, **attested}) if attested else gate


def contradictions(gate: GateResult, receipts: Sequence[Receipt]) -> tuple[Flag, ...]:
    """Declared values that receipts speak of and none of them states (R-215)."""
    return tuple(
        Flag("R-215", None, f"{gate.gate}: {name} is declared as {show(value)}, which no receipt about it states.")
        for name, value in gate.computed.items()
        if gate.provenance.get(name) is Provenance.DECLARED
        and any(name in receipt.values for receipt in receipts)
        and not is_attested(name, value, receipts)
    )
