"""The number that a model's words end in, and whether it is the right one.

`numeric_answer` is a parser for an `Evaluator`: it turns a completion into one canonical text, the same for all ways of
writing the same number, so that comparing two texts character by character compares two numbers without any tolerance.
"""

import re
from fractions import Fraction

__all__ = ["canonical", "exact_match", "numeric_answer"]

MAX_DIGITS = 1000
"""Characters of a number that is read; a longer one is no answer."""
MAX_EXPONENT = 1000
"""Of ten; every double fits."""


def numeric_answer(text: str) -> str:
    """The answer in a text in canonical form; "" where it gives none.

    Where the text marks its answer, the mark is believed: the first `####` of GSM8K's own form, else the last
    `\\boxed{...}`, else the last "answer is" or "answer:"; after a mark it is the number that follows, or the result
    where an equation does. A mark without a number is an answer without a number. Where nothing is marked, the last
    number of the text is the answer.

    Currency signs, units, per cent signs (50% is 50), thousands separators, Markdown and LaTeX around a number do not
    change it. Exponents (cm^2, m²) and digits within words (CO2) are no numbers.
    """
    plain = _plain(text)
    marked = _marked(plain)
    if marked is None:
        return _written(_last(plain))
    before, equals, after = marked.rpartition("=")
    return _written(_first(after) if equals and _NUMBER.search(after) else _first(before or marked))


def exact_match(prediction: str, reference: str) -> bool:
    """Whether two texts give the same number; a text without a number matches nothing, itself included."""
    answer = numeric_answer(prediction)
    return answer != "" and answer == numeric_answer(reference)


def canonical(number: Fraction | int) -> str:
    """The one spelling of a number: "5", "-3", "1/2"."""
    return str(Fraction(number))


_WIDE_FORMS = str.maketrans("．，／＝＄＃", ".,/=$#")
_MINUS = re.compile("[−–﹣－‐‑]")
"""What typography and other keyboards put before a negative number; the long dash is punctuation."""
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_VULGAR_FRACTION = re.compile(rf"(\d?)([{''.join(_VULGAR)}])")
_LATEX_FRACTION = re.compile(r"(\d?)\\[dt]?frac *(?:\{ *(-?\d+) *\} *\{ *(\d+) *\}|(\d)(\d))")
_LATEX_SPACE = re.compile(r"\\[!,;: ]|~")
_GROUP_SPACE = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
"""A space that does not break a line, between groups of three digits."""


def _plain(text: str) -> str:
    """The same text with numbers as `_NUMBER` reads them."""
    text = _MINUS.sub("-", text.translate(_WIDE_FORMS)).replace("⁄", "/").replace("{,}", ",")
    text = _VULGAR_FRACTION.sub(lambda found: _fraction(found[1], _VULGAR[found[2]]), text)
    text = _LATEX_FRACTION.sub(
        lambda found: _fraction(found[1], f"{found[2] or found[4]}/{found[3] or found[5]}"), text
    )
    return _GROUP_SPACE.sub(",", _LATEX_SPACE.sub("", text))


def _fraction(digit: str, fraction: str) -> str:
    """A fraction after the last digit of a whole number, or by itself."""
    return f"{digit} {fraction}" if digit else fraction


def _latex_fraction(found: re.Match[str]) -> str:
    digit, *parts = found.groups()
    above, below = filter(None, parts)
    return _fraction(digit, f"{above}/{below}")


_HASHES = re.compile(r"####([^\n]*(?:\n+[^\n]*)?)")
"""What GSM8K writes before an answer; the number stands in this line or in the next that has any text."""
_BOXED = re.compile(r"\\boxed *\{((?:[^{}]|\{[^{}]*\})*)\}")
_PHRASE = re.compile(r"answer(?: *[*_]*)(?: is\b|:)(?: *:)?([^\n]*(?:\n+[^\n]*)?)", re.IGNORECASE)


def _marked(text: str) -> str | None:
    """The text of the answer's mark; None where nothing is marked."""
    hashes = _HASHES.search(text)
    if hashes is not None:
        return _line(hashes[1])
    for mark in (_BOXED, _PHRASE):
        found = mark.findall(text)
        if found:
            return _line(str(found[-1]))
    return None


def _line(text: str) -> str:
    """The first line that has any text."""
    return text.strip().partition("\n")[0]


_NUMBER = re.compile(
    r"""
    (?P<minus> (?<![\w)\]}]) - (?= \\? [$€£¥] | [.\d] ) )?           # of the number; between two numbers it subtracts
    (?: \\? [$€£¥] [ ]? (?P<inner> - )? )?
    (?<! [A-Za-z^_\d] ) (?<! \^\{ ) (?<! \d\. )
    (?: (?P<whole> \d+ ) [ ]+ (?= \d+ / \d ) )?                    # 3 1/2
    (?P<digits> \d{1,3} (?: ,\d{3} )+ (?!\d) (?: \.\d+ )? | \d+ (?: \.\d+ )? | \.\d+ )
    (?: [eE] (?P<exponent> [+-]?\d+ ) (?! \w ) )?
    (?: [ ]? / [ ]? (?P<below> \d+ ) (?! [\d/] | \.\d ) )?
    """,
    re.VERBOSE,
)


def _first(text: str) -> Fraction | None:
    found = _NUMBER.search(text)
    return None if found is None else _value(found)


def _last(text: str) -> Fraction | None:
    found = list(_NUMBER.finditer(text))
    return _value(found[-1]) if found else None


def _value(found: re.Match[str]) -> Fraction | None:
    """None for what no number is worth: a division by zero, endless digits."""
    if len(found[0]) > MAX_DIGITS or abs(int(found["exponent"] or 0)) > MAX_EXPONENT:
        return None
    value = Fraction(found["digits"].replace(",", ""))
    if found["exponent"]:
        value *= Fraction(10) ** int(found["exponent"])
    if found["below"]:
        if int(found["below"]) == 0:
            return None
        value /= int(found["below"])
    if found["whole"]:
        value += int(found["whole"])
    return -value if found["minus"] or found["inner"] else value


def _written(number: Fraction | None) -> str:
    return "" if number is None else canonical(number)
