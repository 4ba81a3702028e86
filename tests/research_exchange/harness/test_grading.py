"""The number that a model's words end in: real ways to write one, and arbitrary text."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.harness.grading import canonical, exact_match, numeric_answer

ANSWERS = {
    "GSM8K's own mark": ("16 - 3 - 4 = 9 eggs.\n#### 1,234", "1234"),
    "a mark, then a unit": ("#### $18 per day", "18"),
    "a mark, then a line": ("####\n\n18", "18"),
    "a mark, then an equation": ("#### 9 * 2 = 18", "18"),
    "a mark, then what follows": ("#### 18\n\nQuestion: and 5?\n#### 20", "18"),
    "a mark without a number": ("It was 5.\n#### unknown", ""),
    "nothing after the mark": ("It was 5. ####", ""),
    "money": ("$5.00", "5"),
    "a negative amount": ("-$1,000.50", "-2001/2"),
    "a minus after the currency": ("$-5", "-5"),
    "escaped money": (r"\$5", "5"),
    "negative": ("-3", "-3"),
    "a typographic minus": ("−7", "-7"),
    "an en dash": ("= –7", "-7"),
    "in parentheses": ("(-4)", "-4"),
    "a subtraction": ("10 - 3", "3"),
    "a subtraction without spaces": ("10-3", "3"),
    "a range": ("pages 3–5", "5"),
    "an item of a list": ("- 3 apples", "3"),
    "a full stop": ("12.", "12"),
    "a sentence": ("She has 12 apples and 3 pears.", "3"),
    "a decimal": ("0.50", "1/2"),
    "no leading zero": ("It costs .5 in all", "1/2"),
    "a fraction": ("1/2", "1/2"),
    "an improper fraction": ("6/3", "2"),
    "a mixed number": ("3 1/2 cups", "7/2"),
    "a vulgar fraction": ("3½ cups", "7/2"),
    "a fraction of the keyboard": ("-½", "-1/2"),
    "LaTeX": (r"so it is \boxed{42}.", "42"),
    "a boxed fraction": (r"\boxed{\dfrac{3}{4}}", "3/4"),
    "a boxed negative fraction": (r"\boxed{-\frac{3}{4}}", "-3/4"),
    "a boxed equation": (r"\boxed{x = 5}", "5"),
    "a boxed unit": (r"\boxed{12\text{ cm}^{2}}", "12"),
    "the last box": (r"\boxed{1}, no, \boxed{2}, not 3", "2"),
    "short LaTeX": (r"\frac12", "1/2"),
    "grouped in LaTeX": (r"1{,}234 or 1\,234", "1234"),
    "a space that does not break": ("12\u202f345", "12345"),
    "a per cent sign": ("50%", "50"),
    "a unit that sticks": ("5km", "5"),
    "a squared unit": ("It covers 5 m²", "5"),
    "a power": ("It covers 5 cm^2", "5"),
    "a formula": ("7 molecules of CO2", "7"),
    "a phrase": ("The answer is 5, not 6.", "5"),
    "a phrase in bold": ("**Final answer:** **1,000** dollars, from 3", "1000"),
    "a phrase, then a result": ("Answer: 3 + 4 = 7", "7"),
    "several numbers": ("3, 4 and 5", "5"),
    "millions": ("1,000,000", "1000000"),
    "no thousands": ("options 1,23", "23"),
    "scientific": ("1.5e-3", "3/2000"),
    "wide digits": ("＄１，２３４", "1234"),
    "no number": ("I do not know.", ""),
    "nothing": ("", ""),
    "a division by zero": ("1/0", ""),
    "endless digits": ("9" * 2000, ""),
    "an endless exponent": ("1e999999999", ""),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_real_answers(name: str) -> None:
    text, answer = ANSWERS[name]
    assert numeric_answer(text) == answer


@pytest.mark.parametrize(
    ("prediction", "reference", "right"),
    [
        ("#### 1,234", "1234", True),
        ("$5.00", "#### 5", True),
        ("0.5", "1/2", True),
        ("4.999", "5", False),
        ("-3", "3", False),
        ("none", "none", False),
        ("", "5", False),
    ],
)
def test_a_match_is_exact_and_needs_a_number(prediction: str, reference: str, right: bool) -> None:
    assert exact_match(prediction, reference) is right


WHOLE = st.integers(-(10**12), 10**12)
WORDS = st.text(st.characters(codec="ascii", categories=["Lu", "Ll", "Zs"]), max_size=20)
FORMS = st.sampled_from(
    [
        "{n}",
        "#### {n}",
        "#### ${n}",
        r"\boxed{{{n}}}",
        "The answer is {n}.",
        "= {n}",
        "= {n:,}",
        "**{n:,}**",
        "{n}.00",
        "{n} %",
    ]
)


@given(WHOLE, FORMS)
def test_every_form_of_a_whole_number_is_that_number(number: int, form: str) -> None:
    assert numeric_answer(form.format(n=number)) == str(number)


@given(WHOLE, WORDS, WORDS)
def test_words_around_a_marked_answer_change_nothing(number: int, before: str, after: str) -> None:
    assert numeric_answer(f"{before} 17\n#### {number} {after}") == str(number)


@given(st.fractions(max_denominator=10**6))
def test_a_canonical_answer_reads_as_itself(number: Fraction) -> None:
    assert numeric_answer(canonical(number)) == canonical(number)


@given(st.text() | st.text("0123456789.,-/$^{}\\#=eE \n½boxedfrac", max_size=60))
def test_any_text_has_one_answer_in_one_spelling(text: str) -> None:
    answer = numeric_answer(text)
    assert numeric_answer(answer) == answer
    assert answer == "" or exact_match(text, answer)
