"""A search for learning rates, and what the Exchange's selection gate makes of it."""

from typing import Any

import pytest

from research_exchange.client import Run
from research_exchange.harness import Comparison, Item
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.learning_rates import LearningRateSearch, Point
from research_exchange.harness.scores import ArmScore
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.comparing import evaluator, gate, new_run, score, with_seeds

CHOOSING = evaluator(items=tuple(Item(f"s{number}", f"{number}", "7") for number in range(10)))
CONFIRMING = evaluator()
GRIDS = {"trained": [1e-4, 1e-5, 4e-5], "untrained": [1e-5, 4e-5, 1e-4]}
ARMS = ("trained", "untrained")


def tuned(grids: dict[str, list[float]] = GRIDS, **selection: Any) -> dict[str, Any]:
    """The spec with grids, and with items that select and items that confirm."""
    spec = with_seeds(0)
    lists = {
        "selection_items": {"ids": [item.id for item in CHOOSING.items]},
        "confirmation_items": {"ids": [item.id for item in CONFIRMING.items]},
    }
    return {
        **spec,
        "arms": [{"name": arm, "lr_grid": grids[arm]} if arm in grids else {"name": arm} for arm in ARMS],
        "experiment_features": spec["experiment_features"] | {"adaptive_selection": True},
        "decision_rule": {**spec["decision_rule"], "selection": {**lists, **selection}},
    }


def trained_at(point: Point, best: float) -> ArmScore:
    """Ten right answers at the best rate, fewer the further away from it."""
    away = abs(GRIDS["untrained"].index(point.learning_rate) - GRIDS["untrained"].index(best))
    return score(point.arm, 10 - 3 * away, of=CHOOSING, seed=point.seed)


def searched(run: Run, best: float = 4e-5, **options: Any) -> LearningRateSearch:
    search = LearningRateSearch(run, steps=20, **options)
    for point in search.pending():
        search.record(point.arm, point.learning_rate, trained_at(point, best))
    return search


def decided(run: Run, selection: dict[str, Any]) -> str:
    """The recorded verdict of a comparison that trained wins by far."""
    comparison = Comparison(run, CONFIRMING, arms=ARMS)
    comparison.freeze()
    comparison.add(score("untrained", 0, of=CONFIRMING))
    comparison.add(score("trained", 40, of=CONFIRMING))
    decision = comparison.conclude(selection=selection)
    assert decision.verdict == "supported"
    run.finish(verdict=decision.verdict, outcome_reason=decision.outcome_reason, deviations=[])
    return str(run.judgment()["recorded_verdict"])


def test_every_arm_gets_the_same_budget_and_the_rules_accept_what_was_selected(served: ServedExchange) -> None:
    run = new_run(served, tuned())
    search = LearningRateSearch(run, steps=20)
    points = list(search.pending())
    assert points[:2] == [Point("trained", 1e-5, 0), Point("untrained", 1e-5, 0)], "in turn"
    assert len(points) == 6
    assert search.budget == {"trained": 60, "untrained": 60}

    search = searched(run)
    assert list(search.pending()) == []
    assert (search.selected("trained"), search.selected("untrained"), search.edges) == (4e-5, 4e-5, [])
    selection = search.freeze()
    assert decided(run, selection) == "supported"
    found = gate(run, "selection")
    assert (found["status"], found["problems"]) == ("passed", [])
    assert "R-150" not in {flag["rule"] for flag in run.judgment()["flags"]}, (
        "frozen before there was anything to decide on"
    )
    assert len(search.rows()) == 6
    assert search.rows()[0] | {"value": 0.7, "steps": 20, "items": 10} == search.rows()[0]


def test_r152_an_edge_is_told_at_once_and_keeps_the_verdict_inconclusive(served: ServedExchange) -> None:
    run = new_run(served, tuned())
    search = LearningRateSearch(run, steps=20)
    for point in search.pending():
        search.record(point.arm, point.learning_rate, trained_at(point, 1e-4 if point.arm == "trained" else 4e-5))
        told = "highest of its grid" in (run.record()["state"]["summary"] or "")
        assert told == (point.learning_rate == 1e-4), "with the arm's last rate"
    [sentence] = search.edges
    assert sentence.startswith("The best learning rate of trained is 0.0001, the highest of its grid")
    assert decided(run, search.freeze()) == "inconclusive"
    assert gate(run, "selection")["status"] == "passed"


def test_seeds_are_averaged_and_of_equals_the_lower_rate_is_taken(served: ServedExchange) -> None:
    search = LearningRateSearch(new_run(served, tuned()), steps=20, seeds=(0, 1))
    assert search.budget["trained"] == 120
    right = {(1e-5, 0): 0, (1e-5, 1): 10, (4e-5, 0): 5, (4e-5, 1): 5, (1e-4, 0): 4, (1e-4, 1): 4}
    with pytest.raises(HarnessError, match="trained has no score at 1e-05 with seed 0 yet"):
        search.selected("trained")
    for point in search.pending():
        search.record(point.arm, point.learning_rate, score(point.arm, right[point[1:]], of=CHOOSING, seed=point.seed))
    assert search.selected("trained") == 1e-5


def test_what_was_trained_otherwise_is_not_compared(served: ServedExchange) -> None:
    search = LearningRateSearch(new_run(served, tuned()), steps=20)
    with pytest.raises(HarnessError, match="took 30 steps"):
        search.record("trained", 1e-5, score("trained", 1, of=CHOOSING), steps=30)
    with pytest.raises(HarnessError, match="no training of this search"):
        search.record("trained", 2e-5, score("trained", 1, of=CHOOSING))
    with pytest.raises(HarnessError, match="no training of this search"):
        search.record("trained", 1e-5, score("trained", 1, of=CHOOSING, seed=1))
    with pytest.raises(HarnessError, match="The item 0 confirms"):
        search.record("trained", 1e-5, score("trained", 1, of=CONFIRMING))
    fewer = evaluator(items=CHOOSING.items[:5])
    with pytest.raises(HarnessError, match="scored on 5 items"):
        search.record("trained", 1e-5, score("trained", 1, of=fewer))
    assert len(list(search.pending())) == 6, "none of them counts"


def test_nothing_is_selected_after_the_freeze(served: ServedExchange) -> None:
    search = searched(new_run(served, tuned()))
    search.freeze()
    with pytest.raises(HarnessError, match="frozen"):
        search.record("trained", 1e-5, score("trained", 10, of=CHOOSING))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (tuned({**GRIDS, "trained": [1e-5, 1e-4]}), "2 for trained, 3 for untrained"),
        (tuned({}), "No arm of the spec has an lr_grid"),
        (tuned(confirmation_items=None), "cannot be applied: .*R-151"),
    ],
)
def test_a_plan_that_is_not_fair_or_whole_is_refused(
    served: ServedExchange, spec: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HarnessError, match=sentence):
        LearningRateSearch(new_run(served, spec), steps=20)
