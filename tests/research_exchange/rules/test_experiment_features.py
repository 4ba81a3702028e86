"""Which checks a spec asks for (contract §7)."""

from typing import Any

import pytest

from research_exchange.experiment_features import CHECKS, FEATURES, check_applicability
from tests.research_exchange.rules.support import vectors


@pytest.mark.parametrize("case", vectors("applicability")["cases"], ids=str)
def test_truth_table(case: dict[str, Any]) -> None:
    """R-085 to R-087"""
    answer = check_applicability(case["spec"], case["check"])
    assert (answer["status"], answer["conflict"]) == (case["status"], case["conflict"])
    assert answer["reason"]


def test_names_and_titles_say_nothing() -> None:
    """R-088"""
    spec: dict[str, Any] = {
        "title": "A custom loss on generated data",
        "custom_loss": True,
        "method": "custom_optimizer",
    }
    assert {check_applicability(spec, check)["status"] for check in CHECKS} == {"unknown"}


def test_an_unknown_check_and_a_spec_that_is_none_are_programming_errors() -> None:
    """R-089"""
    with pytest.raises(ValueError, match="There is no check 'activation'; the checks are correctness_preflight, "):
        check_applicability({}, "activation")
    with pytest.raises(TypeError, match="A spec is a mapping; found list"):
        check_applicability([], "selection")  # type: ignore[arg-type]


def test_every_check_asks_declared_features() -> None:
    assert {feature for check in CHECKS.values() for feature in check.features} <= set(FEATURES)
    assert len(FEATURES) == 10


def test_a_reason_names_the_features_that_decide() -> None:
    features = {"custom_loss": True, "custom_optimizer": False}
    assert (
        check_applicability({"experiment_features": features}, "correctness_preflight")["reason"]
        == "custom_loss is true."
    )
