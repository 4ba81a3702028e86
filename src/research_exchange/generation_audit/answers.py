"""Whether two answers are the same, without any tolerance (R-194)."""

import re
from fractions import Fraction

from research_exchange.documents.fields import is_number
from research_exchange.documents.generation_audit import AnswerComparison
from research_exchange.documents.json import JsonValue

__all__ = ["answer_agreement"]

MAX_DIGITS = 1000
"""Characters of a number that is written out."""
MAX_EXPONENT = 1000
"""Of ten; every double fits."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_FRACTION = re.compile(r"[+-]?[0-9]+/0*[1-9][0-9]*")
_OUTER_SPACE = " \t\r\n\f\v"


def answer_agreement(label: JsonValue, answer: JsonValue, strategy: JsonValue) -> bool | None:
    """Whether an independent answer is the stored label.

    Args:
        label: The answer that the dataset stores.
        answer: The one that was found without sight of it.
        strategy: An `AnswerComparison`, from the spec.

    Returns:
        None where they cannot be compared: either is not of the strategy's type, or there is no such strategy.
    """
    if strategy == AnswerComparison.NUMERIC_EXACT:
        left, right = _number(label), _number(answer)
        return None if left is None or right is None else left == right
    if strategy == AnswerComparison.CATEGORICAL_EXACT:
        return label == answer if _is_category(label) and _is_category(answer) else None
    return None


def _number(value: JsonValue) -> Fraction | None:
    """A JSON number as its digits say it (0.1 is one tenth), or a string that is one number or fraction and no more."""
    if is_number(value):
        return Fraction(str(value))
    if not isinstance(value, str):
        return None
    text = value.strip(_OUTER_SPACE)
    if len(text) > MAX_DIGITS:
        return None
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        return Fraction(text) if _FRACTION.fullmatch(text) else None
    return Fraction(text) if abs(int(decimal[1] or 0)) <= MAX_EXPONENT else None


def _is_category(value: JsonValue) -> bool:
    return isinstance(value, str) and value != ""
