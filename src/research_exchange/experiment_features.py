"""Which checks a spec asks for: ten declared features and each check's own contract (contract §7).

Only an explicit false establishes that a check may be left out. Names and titles say nothing (R-088).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from research_exchange.documents.gates import Applicability
from research_exchange.documents.json import JsonValue

__all__ = ["CHECKS", "FEATURES", "Answer", "Check", "check_applicability"]

FEATURES = (
    "custom_loss",
    "custom_optimizer",
    "paired_comparison",
    "paired_training_arms",
    "checkpoint_restore",
    "warmup_adaptation",
    "generated_training_data",
    "learned_generator",
    "heldout_loss",
    "adaptive_selection",
)


@dataclass(frozen=True)
class Check:
    """What decides whether a check applies."""

    features: tuple[str, ...]
    """Any of them true asks for the check; all of them false releases from it."""
    contract: str | None = None
    """The spec's section about the check."""
    flag: str | None = None
    """The boolean in that section that asks for the check or waives it."""


CHECKS: Mapping[str, Check] = {
    "correctness_preflight": Check(("custom_loss", "custom_optimizer"), "correctness_preflight", "required"),
    "restoration_preflight": Check(
        ("paired_training_arms", "checkpoint_restore"), "restoration_preflight", "applicable"
    ),
    "activation_gate": Check(("custom_loss", "custom_optimizer"), "activation_gate", "applicable"),
    "adaptation_manifests": Check(("warmup_adaptation",)),
    "selection": Check(("adaptive_selection",)),
    "generation_audit": Check(("generated_training_data",), "generation_audit", "required"),
    "evaluation_comparability": Check(("paired_comparison",)),
}
"""Every check whose applicability features decide, and how (R-087)."""


class Answer(TypedDict):
    """R-086."""

    status: Applicability
    reason: str
    conflict: bool
    """Features and contract disagree; the check is required."""


def check_applicability(spec: Mapping[str, JsonValue], check: str) -> Answer:
    """Whether a spec requires a check.

    Args:
        spec: The spec document as parsed JSON.
        check: A name of `CHECKS`.

    Returns:
        `{"status": "required" | "not_applicable" | "unknown", "reason": ..., "conflict": ...}`.

    Raises:
        TypeError: if the spec is not a mapping (R-089).
        ValueError: if there is no check of that name (R-089).
    """
    if not isinstance(spec, Mapping):
        raise TypeError(f"A spec is a mapping; found {type(spec).__name__}.")
    if check not in CHECKS:
        raise ValueError(f"There is no check {check!r}; the checks are {', '.join(CHECKS)}.")
    definition = CHECKS[check]
    return _decide(definition, _any_feature(spec, definition.features), _contract_flag(spec, definition))


def _decide(check: Check, feature: bool | None, contract: bool | None) -> Answer:
    names = " or ".join(check.features)
    asked = f"{check.contract}.{check.flag}"
    if feature is True and contract is False:
        return _required(f"{names} is true, which overrides {asked} = false.", conflict=True)
    if feature is True:
        return _required(f"{names} is true.")
    if feature is False and contract is True:
        return _required(f"{asked} is true, although {names} is declared false.", conflict=True)
    if contract is True:
        return _required(f"{asked} is true.")
    if feature is False:
        return {"status": Applicability.NOT_APPLICABLE, "reason": f"{names} is declared false.", "conflict": False}
    return {"status": Applicability.UNKNOWN, "reason": f"{names} is not declared.", "conflict": False}


def _required(reason: str, *, conflict: bool = False) -> Answer:
    return {"status": Applicability.REQUIRED, "reason": reason, "conflict": conflict}


def _any_feature(spec: Mapping[str, JsonValue], names: tuple[str, ...]) -> bool | None:
    """True if any is true, False if all are false, None (unknown) otherwise."""
    declared = spec.get("experiment_features")
    values = [_boolean(declared.get(name)) if isinstance(declared, Mapping) else None for name in names]
    if True in values:
        return True
    return False if all(value is False for value in values) else None


def _contract_flag(spec: Mapping[str, JsonValue], check: Check) -> bool | None:
    section = spec.get(check.contract) if check.contract is not None else None
    return _boolean(section.get(check.flag)) if isinstance(section, Mapping) and check.flag is not None else None


def _boolean(value: JsonValue) -> bool | None:
    """Anything but true and false says nothing (R-085)."""
    return value if isinstance(value, bool) else None
