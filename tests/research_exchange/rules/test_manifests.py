"""The manifests gate: every row of contract §16, and a shifted or swapped batch in many disguises (R-180 to R-182)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents.gates import Reading
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.manifests import batch_hash, read_manifests
from research_exchange.updates import fold
from tests.research_exchange.rules.support import patched, paths, spec_of, updates_of, vectors

VECTORS = vectors("manifests")
CASES = {case["name"]: case for case in VECTORS["cases"]}
REPORT = "/updates/1/adaptation_manifests"


def reading_of(bundle: Any) -> Reading:
    spec = spec_of(bundle["spec"])
    return read_manifests(spec, fold(spec, updates_of(bundle["updates"])))


@pytest.mark.parametrize("case", VECTORS["hashes"], ids=lambda case: str(case["hash"])[:8])
def test_hash(case: dict[str, Any]) -> None:
    """R-181"""
    assert batch_hash(case["ids"]) == case["hash"]


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    reading = reading_of(patched(VECTORS["base"], case["patch"]))
    problems = [str(problem) for problem in reading.problems]
    assert reading.status == case["status"], problems
    assert sorted({problem.rule for problem in reading.problems}) == case["rules"], problems
    if "path" in case:
        assert reading.problems[0].path == case["path"], problems
    if "flags" in case:
        assert [flag.rule for flag in reading.flags] == case["flags"]
    assert reading.computed == case.get("computed", reading.computed)
    assert reading.provenance == dict.fromkeys(reading.computed, "recomputed")


def test_case_names_are_different() -> None:
    assert len(CASES) == len(VECTORS["cases"])


def test_a_problem_says_which_batch_is_another() -> None:
    case = CASES["batches shifted by the warm-up"]
    reading = reading_of(patched(VECTORS["base"], case["patch"]))
    assert str(reading.problems[0]) == (
        'R-182 adaptation_manifests[1].adaptation_batch_ids: expected the batches of "plain", its partner in "seed 0", '
        'found "b2" instead of "b0" at place 0. '
        "Train the arms of a pair on the same batches in the same order; a phase of one arm takes others."
    )


def test_many_entries_are_named_a_few_times() -> None:
    entries = [{"arm": f"arm {number}", "pair": str(number)} for number in range(5_000)]
    reading = reading_of(patched(VECTORS["base"], [{"op": "replace", "path": REPORT, "value": entries}]))
    assert reading.status == "unverified"
    assert len(reading.problems) <= MAX_PROBLEMS


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "plain", "warm", "seed 0", "b0", "treatment", "a" * 64]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["arm", "pair", "adaptation_batch_ids", "seed"]), children, max_size=3)
    ),
    max_leaves=8,
)
PLACES = [path for path in paths(VECTORS["base"]) if path.startswith((REPORT, "/spec/arms", "/spec/decision_rule"))]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(PLACES), ANYTHING, st.sampled_from(["replace", "remove"]))
def test_anything_in_place_of_any_part_is_read(place: str, value: Any, operation: str) -> None:
    """Invariant (iv): a status, never an exception, and problems exactly where it is not passed."""
    bundle = patched(VECTORS["base"], [{"op": operation, "path": place, "value": value}])
    reading = reading_of(bundle)
    assert reading == reading_of(bundle)
    assert (reading.status == "passed") == (reading.problems == ())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=4), min_size=1, max_size=6), st.data())
def test_no_other_order_of_batches_passes(ids: list[str], data: st.DataObject) -> None:
    """R-182: whatever the ids are called."""
    ids = [text.encode("utf-8", "replace").decode() for text in ids]
    other = data.draw(st.permutations(ids))
    entries = [
        {
            "arm": arm,
            "pair": "p",
            "warmup_batches": 0,
            "adaptation_batch_ids": each,
            "adaptation_batch_hash": batch_hash(each),
        }
        for arm, each in (("plain", ids), ("warm", other))
    ]
    reading = reading_of(patched(VECTORS["base"], [{"op": "replace", "path": REPORT, "value": entries}]))
    assert reading.status == ("passed" if ids == other else "failed")
