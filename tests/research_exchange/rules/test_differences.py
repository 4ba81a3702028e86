"""The differences of two documents."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.documents.differences import differences, spec_diff
from research_exchange.documents.spec import Spec
from tests.research_exchange.rules.support import EXPERIMENTS

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab.", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "id", "x", "y.z", ""]), inner, max_size=4)
        | st.lists(st.fixed_dictionaries({"name": st.sampled_from("abcd"), "v": inner}), max_size=3)
    ),
    max_leaves=12,
)


def told(before: Any, after: Any) -> list[str]:
    return [str(change) for change in differences(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, ["a: 1 became 1.0"]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b: 1 became 2"]),
        ({"a": 1}, {"b": 1}, ["b: added 1", "a: removed 1"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, ["the document: the same entries in another order"]),
        ({"a b": None}, {"a b": 0}, ['["a b"]: nothing became 0']),
        ([1, 2, 3], [1, 3], ["[1]: removed 2"]),
        ([1, 3], [0, 1, 3], ["[0]: added 0"]),
        ([1, 2], [2, 1], ["the document: the same entries in another order"]),
        ([1, {"x": 1}], [1, {"x": 2}], ["[1].x: 1 became 2"]),
        (
            {"arms": [{"name": "g", "steps": 1}, {"name": "h"}]},
            {"arms": [{"name": "h"}, {"name": "g", "steps": 2}]},
            ['arms["g"].steps: 1 became 2', "arms: the same entries in another order"],
        ),
        ({"arms": []}, {"arms": [{"name": "g"}]}, ['arms["g"]: added an object of 1 keys']),
        ([{"name": "g"}, {"name": "g"}], [{"name": "g"}], ["[1]: removed an object of 1 keys"]),
        ([{"x": 1, "y": 2}], [{"y": 2, "x": 1}], ["[0]: the same entries in another order"]),
        (True, 1, ["the document: true became 1"]),
    ],
)
def test_differences_are_told_by_place(before: Any, after: Any, expected: list[str]) -> None:
    assert told(before, after) == expected


@given(VALUES, VALUES)
def test_no_difference_is_missed_and_none_is_made_up(before: Any, after: Any) -> None:
    """Documents without differences are those with the same text, the order of keys included."""
    assert (told(before, after) == []) == (json.dumps(before) == json.dumps(after))


def test_long_lists_are_compared_in_no_time() -> None:
    items = [f"item-{number}" for number in range(20_000)]
    assert len(differences({"items": items}, {"items": [*items[:-1], "another"]})) == 1


def test_two_specs_are_compared_and_white_space_is_no_difference() -> None:
    raw = (EXPERIMENTS / "arithmetic" / "spec.json").read_bytes()
    spec = Spec.parse(raw)
    assert spec_diff(spec, Spec.parse(json.dumps(spec.value).encode())) == ()
    changed = json.loads(raw)
    changed["budget"]["max_wall_minutes"] = 1
    (change,) = spec_diff(spec, Spec.parse(json.dumps(changed).encode()))
    assert change.to_json() == {
        "kind": "changed",
        "path": "budget.max_wall_minutes",
        "before": spec.section("budget")["max_wall_minutes"],
        "after": 1,
        "text": str(change),
    }
