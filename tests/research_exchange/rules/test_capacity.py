"""Capacity blocks, fresh sessions, cleaning up and the wall budget (contract §18)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.capacity import (
    Capacity,
    Patience,
    Refusals,
    Requeue,
    check_capacity,
    is_refusal,
    requeue_decision,
    wall_used,
)
from research_exchange.documents.run_state import RunState
from research_exchange.updates import fold
from tests.research_exchange.rules.support import START, spec_of, updates_of, vectors

CAPACITY = vectors("capacity")
CASES = {case["name"]: case for case in CAPACITY["cases"]}
REQUEUES = {case["name"]: case for case in CAPACITY["requeues"]}
SPEC = spec_of({"title": "T", "budget": {"max_wall_minutes": 150}, "arms": [{"name": "a"}, {"name": "b"}]})


def capacity_of(*bodies: Any) -> Capacity:
    updates = updates_of(bodies)
    return check_capacity(SPEC, fold(SPEC, updates), updates)


@pytest.mark.parametrize("name", CASES)
def test_capacity_block(name: str) -> None:
    """R-201 to R-205"""
    case = CASES[name]
    found = capacity_of(*case["updates"])
    assert found.requeue == case["requeue"]
    assert sorted({flag.rule for flag in found.flags}) == case["rules"]


@pytest.mark.parametrize("name", REQUEUES)
def test_requeue(name: str) -> None:
    """R-202"""
    case = REQUEUES[name]
    capacity = replace(capacity_of(), requeue=Requeue(case["requeue"]))
    numbers = {key: case[key] for key in ("requeues", "budget", "used", "needed")}
    decision = requeue_decision(capacity, **numbers)
    assert (decision.requeue, decision.after) == (case["result"], case["after"])
    assert decision.reason


def test_cleanup_is_unknown_until_both_lists_are_there() -> None:
    """R-205"""
    assert capacity_of({"status": "running"}).cleanup is None
    assert capacity_of({"cleanup": {"stopped": []}}).cleanup is None
    assert capacity_of({"cleanup": {"stopped": "app", "remaining": []}}).cleanup is None
    cleanup = capacity_of({"cleanup": {"stopped": ["app"], "remaining": []}}).cleanup
    assert cleanup is not None
    assert (cleanup.stopped, cleanup.remaining) == (("app",), ())


def test_wall_time_is_that_of_the_sessions_without_the_waiting_between_them() -> None:
    """R-200"""
    first, second, third, fourth = updates_of([{}] * 4)
    updates = [
        replace(first, session="s1"),
        replace(second, session="s1", received_at=START + timedelta(minutes=90)),
        replace(third, session="s2", received_at=START + timedelta(minutes=600)),
        replace(fourth, session="s2", received_at=START + timedelta(minutes=661)),
    ]
    assert wall_used(updates) == timedelta(minutes=89 + 61)
    assert wall_used([]) == timedelta()
    assert check_capacity(SPEC, fold(SPEC, updates), updates).flags == ()
    longer = [*updates[:3], replace(updates[3], received_at=START + timedelta(minutes=662))]
    (flag,) = check_capacity(SPEC, fold(SPEC, longer), longer).flags
    assert (flag.rule, flag.text) == ("R-200", "The run took at least 151.0 minutes; its budget is 150.")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["error", "comparison_steps_completed", "released_clients"]), ANYTHING), ANYTHING
)
def test_anything_is_read(block: Any, cleanup: Any) -> None:
    """Invariant (iv); only a well-formed block of a run that compared nothing starts anything."""
    final = CASES["no machine, no step, clients released"]["updates"][-1]
    found = capacity_of({**final, "capacity_block": block, "cleanup": cleanup})
    if found.requeue is Requeue.ELIGIBLE:
        assert found.block is not None
        assert found.block.comparison_steps_completed == 0
    requeue_decision(found, requeues=-1, budget=1e300, used=1e301, needed=float("inf"))


NO_MACHINE = CASES["no machine, no step, clients released"]["updates"][-1]
DONE = {"status": "succeeded", "verdict": "inconclusive", "outcome_reason": "tie", "deviations": []}


def fold_sessions(*updates: tuple[str | None, Any]) -> RunState:
    stored = updates_of([body for _, body in updates])
    return fold(SPEC, [replace(each, session=name) for each, (name, _) in zip(stored, updates, strict=True)])


def test_a_fresh_session_goes_on_after_want_of_capacity_stopped_the_run() -> None:
    """R-202: the final update of the session that got no machine ends the run only until another session reports."""
    stopped = fold_sessions(("s1", NO_MACHINE))
    assert (stopped.final_update, stopped.status) == (1, "failed")
    going_on = fold_sessions(("s1", NO_MACHINE), ("s2", {"status": "running", "metrics": {"x": 1}}))
    assert (going_on.final_update, going_on.status, going_on.verdict) == (None, "running", None)
    assert going_on.capacity_block is None
    assert "x" in going_on.metrics
    assert [(flag.rule, flag.update) for flag in going_on.flags] == [("R-202", 2)]
    again = fold_sessions(("s1", NO_MACHINE), ("s2", NO_MACHINE), ("s3", DONE), ("s4", DONE))
    assert (again.final_update, again.status, again.outcome_reason) == (3, "succeeded", "tie")
    assert [(flag.rule, flag.update) for flag in again.flags] == [("R-202", 2), ("R-202", 3), ("R-070", 4)]


def test_steps_of_the_comparison_stay_on_record_when_a_person_lets_the_run_go_on() -> None:
    """R-202"""
    after_steps = {**NO_MACHINE, "capacity_block": {**NO_MACHINE["capacity_block"], "comparison_steps_completed": 12}}
    assert fold_sessions(("s1", after_steps), ("s2", DONE)).final_update == 2


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("no machine, no step, clients released", "s1"),
        ("no machine, no step, clients released", None),
        ("nothing stopped it", "s2"),
        ("with status succeeded", "s2"),
        ("steps -1", "s2"),
    ],
)
def test_nothing_else_undoes_a_final_update(name: str, session: str | None) -> None:
    """R-070: neither the session that posted it, nor a block that is malformed or contradicts the report."""
    state = fold_sessions(("s1", CASES[name]["updates"][-1]), (session, DONE))
    assert state.final_update == 1
    assert ("R-070", 2) in [(flag.rule, flag.update) for flag in state.flags]


def test_a_run_asks_for_ten_minutes_before_its_comparison_and_for_thirty_during_it() -> None:
    """R-201: after 1, 2 and 4 minutes, and no more than that."""
    patience = Patience()
    assert (patience.limit(0), patience.limit(1)) == (10 * 60, 30 * 60)
    assert [patience.pause(attempts) for attempts in (1, 2, 3, 4)] == [60, 120, 240, 240]


def test_refusals_count_from_the_first_one_until_work_is_accepted_or_all_is_quiet() -> None:
    """R-201: a training that runs for an hour after one refusal was not refused for an hour."""
    refusals = Refusals(Patience(quiet=100))
    assert refusals.lasted(0) == 0
    refusals.refused(10, "429")
    refusals.refused(70, "503")
    assert (refusals.lasted(130), refusals.error) == (120, "503")
    refusals.over()
    assert refusals.lasted(131) == 0
    refusals.refused(200, "429")
    assert refusals.lasted(300) == 100
    assert refusals.lasted(301) == 0, "nothing was refused for as long as quiet says"
    refusals.refused(400, "429")
    assert refusals.lasted(410) == 10


@pytest.mark.parametrize(
    ("status", "text", "refuses"),
    [
        (429, "", True),
        (503, "", True),
        (None, "Trainer capacity exhausted, try later", True),
        (500, "", False),
        (400, "capacity of 3", False),
        (None, "", False),
    ],
)
def test_what_counts_as_a_refusal(status: int | None, text: str, refuses: bool) -> None:
    """R-201"""
    assert is_refusal(status, text) is refuses
