"""Observation rows: the per-item values a decision is recomputed from (R-141, R-142).

A file may hold a hundred thousand rows, so rows are kept as columns and looked at column by column. Each row by
itself is looked at only to name what is wrong with it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, cast

from research_exchange.documents.fields import is_number, is_text, is_whole, show
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import DocumentError, JsonValue, parse, parse_lines

__all__ = ["MAX_BYTES", "MAX_PROBLEMS", "MAX_ROWS", "Observations", "read_file", "read_rows"]

MAX_BYTES = 10 * 1024 * 1024
MAX_ROWS = 100_000
MAX_PROBLEMS = 20
"""Bad rows that are named; what follows them is left for the next look."""

_FIELDS = ("item_id", "arm", "seed", "metric", "value", "evaluator_id")
_TEXTS = ("item_id", "arm", "metric", "evaluator_id")


@dataclass(frozen=True)
class Observations:
    """The rows of a decision as columns of one length; they are empty where there are problems."""

    items: Sequence[str] = ()
    arms: Sequence[str] = ()
    seeds: Sequence[int] = ()
    metrics: Sequence[str] = ()
    values: Sequence[int | float] = ()
    evaluators: Sequence[str] = ()
    places: Sequence[int] = ()
    """Of each row among all that were read, from 0."""
    problems: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def by_metric(self, metrics: Collection[str]) -> dict[str, "Observations"]:
        """The rows of each of these metrics; those of others are left out."""
        if set(metrics) == set(self.metrics) and len(metrics) == 1:
            return dict.fromkeys(metrics, self)
        places: dict[str, list[int]] = {metric: [] for metric in metrics}
        for place, metric in enumerate(self.metrics):
            if metric in places:
                places[metric].append(place)
        return {metric: self._at(of_metric) for metric, of_metric in places.items()}

    def _at(self, places: Sequence[int]) -> "Observations":
        return Observations(
            items=[self.items[place] for place in places],
            arms=[self.arms[place] for place in places],
            seeds=[self.seeds[place] for place in places],
            metrics=[self.metrics[place] for place in places],
            values=[self.values[place] for place in places],
            evaluators=[self.evaluators[place] for place in places],
            places=places,
        )


def read_file(content: bytes, path: str) -> Observations:
    """Reads an observations file: JSON Lines, a JSON array, or an object with `observations`. Never raises."""
    if len(content) > MAX_BYTES:
        action = "Keep the rows of the rule alone; other records are predictions."
        return _refused(Problem("R-142", path, f"at most {MAX_BYTES} bytes", f"{len(content)}", action))
    content = content.strip(b" \t\r\n")
    try:
        return _simple_lines(content) or read_rows(_rows(content), path)
    except DocumentError as error:
        return _refused(Problem("R-142", path, "strict UTF-8 JSON or JSON Lines", f"this: {error}", "Write it again."))


def read_rows(rows: JsonValue, path: str) -> Observations:
    """Reads rows that are parsed already. Never raises; `path` says where they stand."""
    if not isinstance(rows, (list, tuple)):
        return _refused(Problem("R-141", path, "a list of rows", show(rows), "Report rows, one for each value."))
    if len(rows) > MAX_ROWS:
        action = "Compare fewer items, or keep other records as predictions."
        return _refused(Problem("R-142", path, f"at most {MAX_ROWS} rows", f"{len(rows)}", action))
    columns = _sound_columns(rows)
    if columns is not None:
        return columns
    problems = (problem for index, row in enumerate(rows) for problem in _row_problems(row, f"{path}[{index}]"))
    first = tuple(islice(problems, MAX_PROBLEMS))
    return _refused(*first) if first else _columns(rows)


def _simple_lines(content: bytes) -> Observations | None:
    """The rows of a file in the form that nearly every program writes; None for any other form, sound or not.

    Where all lines are laid out as the first one is, one regular expression takes them apart, faster than a JSON reader
    does and no less strictly: the names stand once in each row, and strings have nothing to unescape.
    """
    first = _try_parse(content[: content.find(b"\n") + 1])
    if first is None or sorted(first) != sorted(_FIELDS):
        return None
    layout = ", ?".join(f'"{name}": ?{_FORMS.get(name, _TEXT)}' for name in first)
    try:
        parts = re.split(rf"\{{{layout}\}}(?:\r?\n|\Z)", content.decode("utf-8"))
        between, *split = (parts[place :: len(_FIELDS) + 1] for place in range(len(_FIELDS) + 1))
        columns = dict(zip(first, split, strict=True))
        seeds, values = _numbers(columns["seed"]), _numbers(columns["value"])
    except ValueError:
        return None
    items, arms, metrics, evaluators = texts = [columns[name] for name in _TEXTS]
    if any(between) or len(items) > MAX_ROWS or not all(map(str.strip, set().union(*texts))):
        return None
    return Observations(items, arms, cast("list[int]", seeds), metrics, values, evaluators, range(len(items)))


_TEXT = r'"([^"\\\x00-\x1f]*)"'
_WHOLE = r"-?(?:0|[1-9][0-9]*)"
_FORMS = {"seed": f"({_WHOLE})", "value": rf"({_WHOLE}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"}


def _numbers(texts: Sequence[str]) -> list[int | float]:
    """Raises `DocumentError` for numbers that do not fit."""
    different = list(set(texts))
    numbers = cast("list[int | float]", parse(f"[{','.join(different)}]".encode()))
    by_text = dict(zip(different, numbers, strict=True))
    return [by_text[text] for text in texts]


def _sound_columns(rows: Sequence[JsonValue]) -> Observations | None:
    """The columns of rows that have nothing wrong with them; None where each has to be looked at."""
    try:
        columns = _columns(rows)
    except (KeyError, TypeError):
        return None
    texts = (columns.items, columns.arms, columns.metrics, columns.evaluators)
    sound = (
        all({str}.issuperset(map(type, column)) and all(map(str.strip, set(column))) for column in texts),
        {int}.issuperset(map(type, columns.seeds)) and all(map(is_whole, columns.seeds)),
        {int, float}.issuperset(map(type, columns.values)) and all(map(is_number, columns.values)),
    )
    return columns if all(sound) else None


def _columns(rows: Sequence[Any]) -> Observations:
    """Raises `KeyError` or `TypeError` for a row that is no object or lacks a field; types are looked at elsewhere."""
    items, arms, seeds, metrics, values, evaluators = (list(map(itemgetter(name), rows)) for name in _FIELDS)
    return Observations(items, arms, seeds, metrics, values, evaluators, range(len(rows)))


def _rows(text: bytes) -> JsonValue:
    """The rows of either form, each still as JSON."""
    if (
        text.startswith(b"{")
        and (first := _try_parse(text.partition(b"\n")[0])) is not None
        and "observations" not in first
    ):
        return list(parse_lines(text))
    document = parse(text)
    if isinstance(document, Mapping):
        return document.get("observations", [document])
    if isinstance(document, list):
        return document
    raise DocumentError(f"Rows stand in lines, in an array or under observations; found {show(document)}.")


def _try_parse(line: bytes) -> Mapping[str, JsonValue] | None:
    try:
        value = parse(line)
    except DocumentError:
        return None
    return value if isinstance(value, Mapping) else None


def _row_problems(row: JsonValue, path: str) -> Iterator[Problem]:
    if not isinstance(row, Mapping):
        yield Problem("R-141", path, "an object", show(row), f"Report {', '.join(_FIELDS)}.")
        return
    value = row.get("value")
    if not is_number(value):
        action = "Report the value in its own units; a failed item scores 0 on a bounded accuracy."
        yield Problem("R-144", f"{path}.value", "a finite number", show(value), action)
    for name in _TEXTS:
        if not is_text(row.get(name)):
            yield Problem(
                "R-143", f"{path}.{name}", "a non-empty string", show(row.get(name)), "Nothing is inferred: say it."
            )
    if not is_whole(row.get("seed")):
        yield Problem("R-143", f"{path}.seed", "a whole number", show(row.get("seed")), "Nothing is inferred: say it.")


def _refused(*problems: Problem) -> Observations:
    return Observations(problems=problems)
