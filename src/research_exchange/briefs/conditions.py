"""Which parts of a brief a spec may do without: only what is explicitly false is left out (R-054).

A feature that is missing, null or anything but true and false is unknown, and unknown gets the cautious text.
"""

from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.spec import Spec

__all__ = [
    "has_activation_contract",
    "needs_batch_order",
    "needs_probe",
    "needs_restoration",
    "needs_tuning",
]


def needs_probe(spec: Spec) -> bool:
    """Unless `custom_optimizer` is false."""
    return not _is_false(spec, "custom_optimizer")


def needs_tuning(spec: Spec) -> bool:
    """Unless `adaptive_selection` is false and no arm has a grid of learning rates."""
    return not _is_false(spec, "adaptive_selection") or any(
        "lr_grid" in as_mapping(arm) for arm in as_list(spec.value.get("arms"))
    )


def needs_restoration(spec: Spec) -> bool:
    """Unless nothing is paired or restored, and the spec has no restoration contract or waives it."""
    contract = spec.value.get("restoration_preflight")
    is_waived = contract is None or as_mapping(contract).get("applicable") is False
    features = ("paired_training_arms", "checkpoint_restore", "paired_comparison")
    return not is_waived or not all(_is_false(spec, feature) for feature in features)


def has_activation_contract(spec: Spec) -> bool:
    """Whether the spec settles by true or false if its activation gate applies; then the short text does."""
    return isinstance(spec.section("activation_gate").get("applicable"), bool)


def needs_batch_order(spec: Spec) -> bool:
    """Unless `warmup_adaptation` is false."""
    return not _is_false(spec, "warmup_adaptation")


def _is_false(spec: Spec, feature: str) -> bool:
    return spec.features.get(feature) is False
