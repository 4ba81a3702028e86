"""Correctness of a new loss or optimizer: the errors a run measures, and the gate that judges them (contract §9).

A runner measures with `parity_errors` and `lr_scaling_error`, and starts its full run only where
`python -m research_exchange.correctness SPEC.json PREFLIGHT.json` exits with 0.
"""

from research_exchange.correctness.check import (
    ComparisonResult,
    Correctness,
    PathResult,
    ScalingResult,
    check_correctness,
)
from research_exchange.correctness.gate import correctness_applicability, plan_problems, read_correctness
from research_exchange.correctness.parity import ParityErrors, lr_scaling_error, parity_errors

__all__ = [
    "ComparisonResult",
    "Correctness",
    "ParityErrors",
    "PathResult",
    "ScalingResult",
    "check_correctness",
    "correctness_applicability",
    "lr_scaling_error",
    "parity_errors",
    "plan_problems",
    "read_correctness",
]
