"""The append-only fold of a run's updates, and of its deviations (contract §5, §6)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.deviations import Deviations, fold_deviations
from research_exchange.documents import RunState, canonical
from research_exchange.updates import fold
from tests.research_exchange.rules.support import spec_of, updates_of

SPEC = spec_of({"title": "T", "arms": [{"name": "a"}, {"name": "b"}]})
CHANGE = {"field": "steps", "original": "40", "effective": "30", "reason": "time"}


def state_of(*bodies: Any) -> RunState:
    return fold(SPEC, updates_of(bodies))


def deviations_of(*bodies: Any) -> Deviations:
    return fold_deviations(state_of(*bodies))


def running(**fields: Any) -> dict[str, Any]:
    return {"status": "running", **fields}


def done(**fields: Any) -> dict[str, Any]:
    return {"status": "succeeded", "verdict": "inconclusive", "deviations": [], **fields}


def flagged(state: RunState | Deviations) -> list[tuple[str, int | None]]:
    return [(flag.rule, flag.update) for flag in state.flags]


def test_before_the_first_update_a_run_is_running() -> None:
    state = state_of()
    assert (state.status, state.is_final, state.last_update, state.verdict) == ("running", False, 0, None)


def test_a_metric_once_posted_stays_and_keeps_its_revisions() -> None:
    """R-065"""
    state = state_of(
        running(metrics={"x": 1, "y": 2}), running(metrics={"x": 1.0}), running(metrics={"x": 3}), running()
    )
    assert [(value.value, value.update) for value in state.metrics["x"].values] == [(1, 1), (3, 3)]
    assert state.metrics["x"].revised
    assert not state.metrics["y"].revised
    assert state.metrics["y"].latest.value == 2


def test_arm_metrics_are_kept_by_arm_and_the_base_model_is_an_arm() -> None:
    """R-069"""
    state = state_of(running(metrics={"arms": {"base": {"acc": 0.1}, "a": {"acc": 0.5}, "c": {"acc": 0.7}}}))
    assert {arm: metrics["acc"].latest.value for arm, metrics in state.arms.items()} == {
        "base": 0.1,
        "a": 0.5,
        "c": 0.7,
    }
    assert [flag.text for flag in state.flags] == ['names "c" in metrics.arms, which is no arm of the spec.']


def test_what_every_update_repeats_is_flagged_once() -> None:
    state = state_of(*[running(metrics={"x": None, "arms": {"c": {"acc": 1}}})] * 3)
    assert flagged(state) == [("R-068", 1), ("R-066", 1)]


def test_completed_arms_only_grow() -> None:
    """R-066"""
    state = state_of(running(completed_arms=["a"]), running(completed_arms=[]), running(completed_arms=["b", "a"]))
    assert state.completed_arms == {"a": 1, "b": 3}


def test_a_malformed_update_says_nothing_and_stays() -> None:
    """R-06A"""
    state = state_of(running(metrics={"x": 1}), b'{"metrics": {"x": 2}, "metrics": {}}', running())
    assert state.metrics["x"].latest.value == 1
    assert state.last_update == 3
    assert flagged(state) == [("R-06A", 2)]
    assert '"metrics" stands twice' in state.flags[0].text


def test_after_the_final_update_nothing_changes() -> None:
    """R-070"""
    state = state_of(done(), running(metrics={"x": 1}), done(verdict="supported", completed_arms=["a"]))
    assert (state.final_update, state.verdict, state.metrics, state.completed_arms) == (1, "inconclusive", {}, {})
    assert flagged(state) == [("R-070", 2), ("R-070", 3)]


def test_updates_count_by_sequence_number_not_by_position() -> None:
    updates = updates_of([running(metrics={"x": 1}), running(metrics={"x": 2}), done()])
    assert fold(SPEC, updates[::-1]) == fold(SPEC, updates)


def test_a_status_that_is_none_leaves_the_run_as_it_was() -> None:
    state = state_of({"status": "done", "metrics": {"x": 1}}, {"metrics": {"x": 2}})
    assert (state.status, state.metrics["x"].latest.value) == ("running", 2)
    assert flagged(state) == [("R-060", 1), ("R-060", 2)]


@pytest.mark.parametrize(
    ("summary", "long"),
    [
        ("Learned.", False),
        ("Accuracy rose by 0.5 points. It held.", False),
        ("One. Two! Three?", True),
        ('A. "B." C.', True),
    ],
)
def test_a_summary_has_two_sentences(summary: str, long: bool) -> None:
    """R-072"""
    state = state_of(running(summary=summary))
    assert state.summary == summary
    assert flagged(state) == [("R-072", 1)] * long


def test_the_state_has_a_json_form() -> None:
    state = state_of(running(metrics={"x": 1}, evaluation={"version": 1}), done(metrics={"arms": {"a": {"y": 2}}}))
    value: Any = state.to_json()
    assert canonical(value)
    assert value["metrics"]["x"] == {"value": 1, "update": 1, "revised": False, "history": [{"value": 1, "update": 1}]}
    assert value["posted"] == {"evaluation": [1], "deviations": [2]}


bodies = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(["running", "running", "running", "succeeded", "failed", "done"]),
            "metrics": st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=3),
            "completed_arms": st.lists(st.sampled_from("abc"), max_size=2),
            "deviations": st.lists(st.just(CHANGE), max_size=1),
            "evaluation": st.just({"version": 1}),
        },
    ),
    max_size=6,
)


@given(bodies, bodies)
def test_an_update_never_changes_what_earlier_ones_left(first: list[Any], more: list[Any]) -> None:
    """Invariant (i): every history of the shorter run is a prefix of the longer one's."""
    before, after = state_of(*first), state_of(*first, *more)
    for name, history in before.metrics.items():
        assert after.metrics[name].values[: len(history.values)] == history.values
    for part, posted in before.posted.items():
        assert after.posted[part][: len(posted)] == posted
    assert before.completed_arms.items() <= after.completed_arms.items()
    assert after.flags[: len(before.flags)] == before.flags
    if before.is_final:
        assert (after.status, after.verdict, after.metrics) == (before.status, before.verdict, before.metrics)
    found = fold_deviations(before).items
    assert [item.field for item in fold_deviations(after).items][: len(found)] == [item.field for item in found]


def test_when_a_deviation_was_stated() -> None:
    """R-076"""
    late = {**CHANGE, "field": "model"}
    last = {**CHANGE, "field": "dataset"}
    found = deviations_of(
        running(deviations=[CHANGE]),
        running(deviations=[CHANGE, late], completed_arms=["a"]),
        done(deviations=[CHANGE, late, last]),
    )
    assert [(item.field, item.update, item.recording) for item in found.items] == [
        ("steps", 1, "recorded"),
        ("model", 2, "late"),
        ("dataset", 3, "unrecorded"),
    ]
    assert flagged(found) == [("R-076", 2), ("R-076", 3)]
    assert found.hypothesis_tested


@pytest.mark.parametrize(("field", "recording"), [("steps", "recorded"), ("Dataset ", "recorded"), ("model", "late")])
def test_the_score_of_the_base_model_is_before_any_training(field: str, recording: str) -> None:
    """R-076, R-069: a change of the training does not affect it; another model or evaluator does."""
    changed = {**CHANGE, "field": field}
    found = deviations_of(running(completed_arms=["base"]), running(deviations=[changed]), done(deviations=[changed]))
    assert [item.recording for item in found.items] == [recording]


def test_a_deviation_that_is_left_out_later_is_withdrawn_and_stays() -> None:
    """R-077"""
    found = deviations_of(running(deviations=[CHANGE]), running(deviations=[]))
    assert [(item.field, item.withdrawn) for item in found.items] == [("steps", True)]
    again = deviations_of(running(deviations=[CHANGE]), running(deviations=[]), running(deviations=[CHANGE]))
    assert [(item.update, item.withdrawn) for item in again.items] == [(1, False)]


@pytest.mark.parametrize("field", ["objective", "endpoint"])
def test_another_objective_or_endpoint_is_another_hypothesis(field: str) -> None:
    """R-078"""
    found = deviations_of(running(deviations=[{**CHANGE, "field": field}], original_hypothesis_tested=True))
    assert not found.hypothesis_tested
    assert flagged(found) == [("R-078", None)]


def test_a_hypothesis_once_not_tested_stays_so() -> None:
    """R-078"""
    found = deviations_of(
        running(original_hypothesis_tested=False, tested_instead="REINFORCE"), done(original_hypothesis_tested=True)
    )
    assert (found.hypothesis_tested, found.tested_instead) == (False, "REINFORCE")


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (done(), []),
        (done(deviations=None), ["R-075"]),
        (done(deviations=[{**CHANGE, "field": "lr"}]), ["R-075", "R-076"]),
        (running(deviations=[{**CHANGE, "effective": "40"}]), ["R-075"]),
        (running(deviations=[{**CHANGE, "reason": " "}]), ["R-075"]),
        (running(deviations=[7]), ["R-075"]),
        (running(deviations={}), ["R-075"]),
        (running(original_hypothesis_tested=False), ["R-078"]),
        (running(original_hypothesis_tested="false"), ["R-078", "R-078"]),
        (running(original_hypothesis_tested=0), ["R-078"]),
    ],
)
def test_deviation_flags(body: dict[str, Any], rules: list[str]) -> None:
    """R-075, R-078"""
    assert [flag.rule for flag in deviations_of(body).flags] == rules
