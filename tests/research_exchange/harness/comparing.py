"""A spec, an evaluator and scores that tests compare."""

import json
from typing import Any

from research_exchange.client import Run
from research_exchange.experiment_features import FEATURES
from research_exchange.harness import ArmScore, Evaluator, Item
from research_exchange.harness.scores import Answer
from tests.research_exchange.client.serving import ServedExchange

SPEC: dict[str, Any] = {
    "title": "A spec for the harness's tests",
    "arms": [{"name": "trained"}, {"name": "untrained"}],
    "decision_rule": {
        "version": 1,
        "estimand": "difference in accuracy",
        "unit": "fixed_checkpoint_items",
        "seeds": [0],
        "alpha": 0.05,
        "method": "paired_hoeffding",
        "criteria": [
            {
                "id": "primary",
                "metric": "accuracy",
                "weights": {"trained": 1, "untrained": -1},
                "margin": 0.2,
                "bounds": [0, 1],
            }
        ],
    },
}


def whole(completion: str) -> str:
    return completion


def first_letter(completion: str) -> str:
    return completion[:1]


def evaluator(**changes: Any) -> Evaluator:
    items = tuple(Item(f"{number}", f"{number}", "7") for number in range(40))
    defaults: dict[str, Any] = {
        "metric": "accuracy",
        "items": items,
        "prompt_template": "{question}=",
        "parser": whole,
        "max_tokens": 3,
        "stop": ("\n",),
    }
    return Evaluator(**{**defaults, **changes})


def score(arm: str, right: int, *, of: Evaluator, seed: int | None = 0, **changes: Any) -> ArmScore:
    """An arm with `right` right answers."""
    answers = tuple(
        Answer(item.id, "7", "7" if number < right else "", "7", int(number < right))
        for number, item in enumerate(of.items)
    )
    return ArmScore(arm, seed, of.metric, of.id, answers, **changes)


def new_run(served: ServedExchange, spec: dict[str, Any] = SPEC) -> Run:
    """A run of a spec on a real Exchange."""
    exchange = served.connect()
    return exchange.create_run(exchange.register(json.dumps(spec).encode(), legacy=True))


def with_seeds(*seeds: int) -> dict[str, Any]:
    """The spec with this schedule; arms are compared as pairs."""
    rule = {**SPEC["decision_rule"], "seeds": list(seeds)}
    return {
        **SPEC,
        "decision_rule": rule,
        "experiment_features": dict.fromkeys(FEATURES, False) | {"paired_comparison": True},
    }


def gate(run: Run, name: str) -> dict[str, Any]:
    """The Exchange's reading of one gate."""
    return next(gate for gate in run.judgment()["gates"] if gate["gate"] == name)
