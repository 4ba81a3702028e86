"""Which checks a spec asks for: ten declared features and each check's own contract (contract §7).

Only an explicit false establishes that a check may be left out. Names and titles say nothing (R-088).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from research_exchange.documents.fields import as_list, as_mapping
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
    plans: Callable[[Mapping[str, JsonValue]], str | None] | None = None
    """Where a spec plans something that needs the check, whatever its features say; None where it does not."""


def _selection_plans(spec: Mapping[str, JsonValue]) -> str | None:
    """Items to select and to confirm on, arms that edit weights, or a grid of learning rates (R-151 to R-153)."""
    rule = as_mapping(spec.get("decision_rule"))
    for name in ("selection", "kind"):
        if rule.get(name) is not None:
            return f"decision_rule.{name}"
    arms = enumerate(as_list(spec.get("arms")))
    return next((f"arms[{index}].lr_grid" for index, arm in arms if as_mapping(arm).get("lr_grid") is not None), None)


def _comparison_plans(spec: Mapping[str, JsonValue]) -> str | None:
    """A criterion that weighs two arms compares them, whatever the features call it."""
    criteria = as_list(as_mapping(spec.get("decision_rule")).get("criteria"))
    weighed = [len(as_mapping(as_mapping(criterion).get("weights"))) for criterion in criteria]
    return next((f"decision_rule.criteria[{index}].weights" for index, arms in enumerate(weighed) if arms > 1), None)


CHECKS: Mapping[str, Check] = {
    "correctness_preflight": Check(("custom_loss", "custom_optimizer"), "correctness_preflight", "required"),
    "restoration_preflight": Check(
        ("paired_training_arms", "checkpoint_restore"), "restoration_preflight", "applicable"
    ),
    "activation_gate": Check(("custom_loss", "custom_optimizer"), "activation_gate", "applicable"),
    "adaptation_manifests": Check(("warmup_adaptation",)),
    "selection": Check(("adaptive_selection",), plans=_selection_plans),
    "generation_audit": Check(("generated_training_data",), "generation_audit", "required"),
    "evaluation_comparability": Check(("paired_comparison",), plans=_comparison_plans),
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
    declared = spec.get("experiment_features")
    features = {
        name: _boolean(declared.get(name)) if isinstance(declared, Mapping) else None for name in definition.features
    }
    answer = _decide(definition, features, _contract_flag(spec, definition))
    planned = definition.plans(spec) if definition.plans is not None else None
    if planned is None or answer["status"] is Applicability.REQUIRED:
        return answer
    contradicts = planned == "decision_rule.selection" and answer["status"] is Applicability.NOT_APPLICABLE
    return _required(f"{planned} plans for it.", conflict=contradicts)


def _decide(check: Check, features: Mapping[str, bool | None], contract: bool | None) -> Answer:
    asked = f"{check.contract}.{check.flag}"
    true = [name for name, value in features.items() if value is True]
    undeclared = [name for name, value in features.items() if value is None]
    if true and contract is False:
        return _required(f"{_are(true)} true, which overrides {asked} = false.", conflict=True)
    if true:
        return _required(f"{_are(true)} true.")
    if contract is True and not undeclared:
        return _required(f"{asked} is true, although {_are(list(features))} declared false.", conflict=True)
    if contract is True:
        return _required(f"{asked} is true.")
    if undeclared:
        return {"status": Applicability.UNKNOWN, "reason": f"{_are(undeclared)} not declared.", "conflict": False}
    reason = f"{_are(list(features))} declared false."
    return {"status": Applicability.NOT_APPLICABLE, "reason": reason, "conflict": False}


def _are(names: list[str]) -> str:
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _required(reason: str, *, conflict: bool = False) -> Answer:
    return {"status": Applicability.REQUIRED, "reason": reason, "conflict": conflict}


def _contract_flag(spec: Mapping[str, JsonValue], check: Check) -> bool | None:
    section = spec.get(check.contract) if check.contract is not None else None
    return _boolean(section.get(check.flag)) if isinstance(section, Mapping) and check.flag is not None else None


def _boolean(value: JsonValue) -> bool | None:
    """Anything but true and false says nothing (R-085)."""
    return value if isinstance(value, bool) else None
