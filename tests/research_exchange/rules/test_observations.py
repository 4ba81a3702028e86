"""Observation files are read fast, and no less strictly for that (R-142)."""

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import observations as module
from research_exchange.documents.observations import MAX_ROWS, Observations, read_file, read_rows

ROW: dict[str, str] = {
    "item_id": '"q0"',
    "arm": '"a"',
    "seed": "0",
    "metric": '"m"',
    "value": "1",
    "evaluator_id": '"e"',
}
"""Names to JSON texts."""
ODD_VALUES = ["1.5", "-0", "1e3", "1E-3", "01", "1.", ".5", "+1", "NaN", "1e999", str(2**63), "true", "null", '"1"']
ODD_VALUES += [
    '"é"',
    '""',
    '" "',
    '"a b"',
    '"\\u00e9"',
    '"\\""',
    '"{"',
    '"a,b"',
    '"\x01"',
    '"\u2028"',
    '"\\ud800"',
    "[]",
    "{}",
]
ODD_LINES = ["", " ", "{}", "[]", '{"observations": []}', "{", "}", ",", "[", "]"]


def as_text(row: list[tuple[str, str]], comma: str, colon: str) -> str:
    return "{" + comma.join(f'"{name}"{colon}{value}' for name, value in row) + "}"


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files as programs write them, most of them with something odd in a place or two."""
    order = draw(st.permutations(list(ROW)))
    comma, colon = draw(st.sampled_from([(", ", ": "), (",", ":"), (", ", ":"), (" , ", ": ")]))
    rows = [[(name, ROW[name]) for name in order] for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(0, 2))):
        row = draw(st.sampled_from(rows))
        match draw(st.integers(0, 3)):
            case 0:
                row.append((draw(st.sampled_from([*ROW, "note"])), draw(st.sampled_from(ODD_VALUES))))
            case 1:
                row.pop()
            case _:
                place = draw(st.integers(0, len(row) - 1))
                row[place] = (row[place][0], draw(st.sampled_from(ODD_VALUES)))
    lines = [as_text(row, comma, colon) for row in rows]
    if draw(st.integers(0, 3)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(ODD_LINES)))
    separator = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", ", ", "\n,"]))
    return separator.join(lines).encode() + draw(st.sampled_from([b"", b"\n", b"\xff"]))


def columns(observations: Observations) -> list[Any]:
    """As texts, which tell 1 from 1.0 and from true."""
    found = (observations.items, observations.arms, observations.seeds, observations.metrics)
    return [repr(list(column)) for column in (*found, observations.values, observations.evaluators)]


@given(files())
@settings(max_examples=200, deadline=None)
def test_the_quick_way_takes_nothing_that_the_thorough_one_refuses(content: bytes) -> None:
    quick = module._simple_lines(content.strip(b" \t\r\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_simple_lines", lambda _: None)
        thorough = read_file(content, "rows.jsonl")
    if quick is not None:
        assert thorough.problems == ()
        assert columns(quick) == columns(thorough)


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("value", [1, 0.1, -2.5e-07, 1e22])
def test_what_programs_write_is_read_the_quick_way(separators: tuple[str, str], end: str, value: float) -> None:
    row = {"evaluator_id": "e" * 64, "value": value, "item_id": "Frage 1 é", "arm": "a", "seed": -1, "metric": "m"}
    content = json.dumps(row, separators=separators, ensure_ascii=False).encode() + end.encode()
    quick = module._simple_lines((content * 3).strip())
    assert quick is not None
    assert (quick.values, quick.seeds, len(quick)) == ([value] * 3, [-1] * 3, 3)


@pytest.mark.parametrize(
    ("name", "value"), [("item_id", " "), ("value", True), ("value", 2**63), ("value", float("nan")), ("seed", 0.0)]
)
def test_rows_in_hand_are_looked_at_one_by_one_where_a_column_is_odd(name: str, value: Any) -> None:
    row: dict[str, Any] = {"item_id": "q", "arm": "a", "seed": 0, "metric": "m", "value": 1, "evaluator_id": "e"}
    assert len(read_rows([row, row], "rows")) == 2
    (problem,) = read_rows([row, {**row, name: value}], "rows").problems
    assert problem.path == f"rows[1].{name}"


def test_rows_are_told_apart_by_metric_with_their_places() -> None:
    row: dict[str, Any] = {"item_id": "q", "arm": "a", "seed": 0, "metric": "m", "value": 1, "evaluator_id": "e"}
    rows = read_rows([row, {**row, "metric": "n", "value": 2}, row, {**row, "metric": "o"}], "rows")
    found = {metric: (list(of.places), list(of.values)) for metric, of in rows.by_metric(("m", "n", "p")).items()}
    assert found == {"m": ([0, 2], [1, 1]), "n": ([1], [2]), "p": ([], [])}
    assert rows.by_metric(("m",))["m"].places == [0, 2]


def short_rows(count: int) -> Iterator[bytes]:
    for index in range(count):
        yield b'{"item_id": "%06d", "arm": "a", "seed": 0, "metric": "m", "value": 0, "evaluator_id": "e"}\n' % index


def test_a_hundred_thousand_rows_take_little_memory() -> None:
    content = b"".join(short_rows(MAX_ROWS))
    tracemalloc.start()
    try:
        assert len(read_file(content, "rows.jsonl")) == MAX_ROWS
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6, "200 MB are the limit that a reader may count on"
