"""Observation rows: the per-item values a decision is recomputed from (R-141, R-142)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from research_exchange.documents.fields import as_mapping, is_number, is_text, is_whole, show
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["MAX_BYTES", "MAX_PROBLEMS", "MAX_ROWS", "Observation", "Observations", "read_file", "read_rows"]

MAX_BYTES = 10 * 1024 * 1024
MAX_ROWS = 100_000
MAX_PROBLEMS = 20
"""Bad rows that are named; what follows them is left for the next look."""

_FIELDS = ("item_id", "arm", "seed", "metric", "value", "evaluator_id")


@dataclass(frozen=True, slots=True)
class Observation:
    """One value of one arm on one item."""

    index: int
    """Its place among the rows, from 0."""
    item: str
    arm: str
    seed: int
    metric: str
    value: int | float
    evaluator: str


@dataclass(frozen=True)
class Observations:
    """All rows of a decision; there are none where there are problems."""

    rows: tuple[Observation, ...]
    problems: tuple[Problem, ...]


def read_file(content: bytes, path: str) -> Observations:
    """Reads an observations file: JSON Lines, a JSON array, or an object with `observations`. Never raises."""
    if len(content) > MAX_BYTES:
        action = "Keep the rows of the rule alone; other records are predictions."
        return _refused(Problem("R-142", path, f"at most {MAX_BYTES} bytes", f"{len(content)}", action))
    try:
        return read_rows(_rows(content), path)
    except DocumentError as error:
        return _refused(Problem("R-142", path, "strict UTF-8 JSON or JSON Lines", f"this: {error}", "Write it again."))


def read_rows(rows: JsonValue, path: str) -> Observations:
    """Reads rows that are parsed already. Never raises; `path` says where they stand."""
    if not isinstance(rows, (list, tuple)):
        return _refused(Problem("R-141", path, "a list of rows", show(rows), "Report rows, one for each value."))
    if len(rows) > MAX_ROWS:
        action = "Compare fewer items, or keep other records as predictions."
        return _refused(Problem("R-142", path, f"at most {MAX_ROWS} rows", f"{len(rows)}", action))
    problems = (problem for index, row in enumerate(rows) for problem in _row_problems(row, f"{path}[{index}]"))
    first = tuple(islice(problems, MAX_PROBLEMS))
    if first:
        return _refused(*first)
    return Observations(tuple(_observation(index, as_mapping(row)) for index, row in enumerate(rows)), ())


def _rows(content: bytes) -> JsonValue:
    """The rows of either form, each still as JSON."""
    text = content.strip(b" \t\r\n")
    if (
        text.startswith(b"{")
        and (first := _try_parse(text.partition(b"\n")[0])) is not None
        and "observations" not in first
    ):
        return list(_lines(text))
    document = parse(content)
    if isinstance(document, Mapping):
        return document.get("observations", [document])
    if isinstance(document, list):
        return document
    raise DocumentError(f"Rows stand in lines, in an array or under observations; found {show(document)}.")


def _lines(text: bytes) -> Iterator[JsonValue]:
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            yield parse(line)
        except DocumentError as error:
            raise DocumentError(f"Line {number}: {error}") from None


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
    for name in ("item_id", "arm", "metric", "evaluator_id"):
        if not is_text(row.get(name)):
            yield Problem(
                "R-143", f"{path}.{name}", "a non-empty string", show(row.get(name)), "Nothing is inferred: say it."
            )
    if not is_whole(row.get("seed")):
        yield Problem("R-143", f"{path}.seed", "a whole number", show(row.get("seed")), "Nothing is inferred: say it.")


def _observation(index: int, row: Mapping[str, JsonValue]) -> Observation:
    item, arm, seed, metric, value, evaluator = (row[name] for name in _FIELDS)
    return Observation(index, item, arm, seed, metric, value, evaluator)  # type: ignore[arg-type]  # read before


def _refused(*problems: Problem) -> Observations:
    return Observations((), problems)
