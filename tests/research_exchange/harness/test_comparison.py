"""Several arms, seeds and the base model under one evaluator, or under the next: as the Exchange judges them."""

from dataclasses import replace
from typing import Any

import pytest

from research_exchange.harness import ArmScore, Comparison
from research_exchange.harness.comparison import Scored
from research_exchange.harness.errors import HarnessError
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.comparing import evaluator, gate, new_run, score, with_seeds

ARMS = ("trained", "untrained")


def checkpoint(scored: ArmScore) -> ArmScore:
    return replace(scored, checkpoint=f"tinker://{scored.arm}-{scored.seed}/sampler_weights/last")


def test_arms_times_seeds_and_the_base_model(served: ServedExchange) -> None:
    run, frozen = new_run(served, with_seeds(3, 5)), evaluator()
    comparison = Comparison(run, frozen, arms=ARMS)
    comparison.freeze()
    comparison.add(score("base", 2, of=frozen, seed=None))
    assert run.record()["state"]["completed_arms"].keys() == {"base"}, "scored like an arm (R-069)"
    for seed, right in ((3, 38), (5, 40)):
        comparison.add(checkpoint(score("trained", right, of=frozen, seed=seed)), step=14)
        comparison.add(score("untrained", 1, of=frozen, seed=seed))
        assert ("trained" in run.record()["state"]["completed_arms"]) == (seed == 5), "complete with its last seed"
    assert comparison.mean("trained") == 39 / 40
    decision = comparison.conclude()
    assert decision.verdict == "supported"
    assert decision.seeds == (3, 5)

    run.finish(verdict=decision.verdict, outcome_reason=decision.outcome_reason)
    judgment = run.judgment()
    assert (judgment["decision"]["status"], judgment["decision"]["verdict"]) == ("passed", "supported")
    assert judgment["decision"]["rows"] == 160, "the base model's rows stay with its predictions"
    assert gate(run, "evaluation_comparability")["status"] == "passed"
    assert {history["value"] for history in run.record()["state"]["arms"]["trained"].values()} == {39 / 40}


def test_r136_a_changed_evaluator_scores_everything_again(served: ServedExchange) -> None:
    run, first, second = new_run(served, with_seeds(0)), evaluator(), evaluator(max_tokens=5)
    comparison = Comparison(run, first, arms=ARMS)
    comparison.freeze()
    comparison.add(score("base", 2, of=first, seed=None))
    comparison.add(score("untrained", 1, of=first))
    again = comparison.change(second, reason="Answers were cut off after three tokens.")
    assert again == comparison.stale == [Scored("base", None), Scored("untrained", 0)]

    with pytest.raises(HarnessError, match="not from the evaluator in use"):
        comparison.add(score("trained", 40, of=first))
    comparison.add(score("trained", 40, of=second))
    comparison.add(score("untrained", 3, of=second))
    with pytest.raises(HarnessError, match=r"score base \(seed None\) again"):
        comparison.conclude()
    assert gate(run, "evaluation_comparability")["status"] == "unverified", "the base model has the old score only"

    comparison.add(score("base", 2, of=second, seed=None))
    decision = comparison.conclude()
    assert (decision.verdict, decision.criteria[0].means["untrained"]) == ("supported", 3 / 40)
    comparability = gate(run, "evaluation_comparability")
    assert (comparability["status"], comparability["problems"]) == ("passed", [])
    [stated] = run.judgment()["deviations"]["items"]
    assert (stated["original"], stated["effective"], stated["recording"]) == (first.id, second.id, "late")


def test_r148_a_seed_off_the_schedule_is_reported_and_decides_nothing(served: ServedExchange) -> None:
    run, frozen = new_run(served, with_seeds(0)), evaluator()
    comparison = Comparison(run, frozen, arms=ARMS)
    comparison.freeze()
    for arm, right in (("untrained", 1), ("trained", 40)):
        comparison.add(score(arm, right, of=frozen, seed=1))
    assert run.record()["state"]["completed_arms"].keys() == set(ARMS)
    decision = comparison.conclude()
    assert (decision.status, decision.verdict) == ("failed", "inconclusive")


def test_r145_a_rule_needs_ids_and_a_spec_without_one_takes_a_manifest(served: ServedExchange) -> None:
    frozen = evaluator(manifest="items.jsonl")
    with pytest.raises(HarnessError, match="R-145"):
        Comparison(new_run(served, with_seeds(0)), frozen, arms=ARMS).freeze()

    without: dict[str, Any] = {name: part for name, part in with_seeds(0).items() if name != "decision_rule"}
    run = new_run(served, without)
    comparison = Comparison(run, frozen, arms=ARMS)
    comparison.freeze()
    for arm in ARMS:
        comparison.add(score(arm, 3, of=frozen))
    assert gate(run, "evaluation_comparability")["status"] == "passed"


def test_reporting_an_arm_again_after_an_interruption_changes_nothing(served: ServedExchange) -> None:
    run, frozen = new_run(served, with_seeds(0)), evaluator()
    interrupted, comparison = Comparison(run, frozen, arms=ARMS), Comparison(run, frozen, arms=ARMS)
    for session in (interrupted, comparison):
        session.freeze()
        session.add(checkpoint(score("trained", 40, of=frozen)), step=3)
    comparison.add(score("untrained", 0, of=frozen))
    assert comparison.conclude().verdict == "supported"
    assert gate(run, "evaluation_comparability")["status"] == "passed"
    assert len([file for file in run.record()["evidence"] if file["kind"] == "predictions"]) == 2
