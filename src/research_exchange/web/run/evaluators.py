"""The frozen evaluators of a run: what each is made of, and which arms it scored (R-130 to R-133)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from research_exchange.documents.evaluation import Score
from research_exchange.documents.fields import as_mapping
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState

MAX_SHOWN = 20
"""Evaluators, and scores of each."""


@dataclass(frozen=True)
class EvaluatorPanel:
    id: str
    update: int
    """The newest report of it."""
    provenance: Mapping[str, JsonValue]
    """As reported, its items left aside."""
    items: str
    """How many it scores, in words."""
    scores: tuple[Score, ...]
    more_scores: int
    problems: tuple[Problem, ...]


def evaluators(state: RunState) -> tuple[EvaluatorPanel, ...]:
    posted = state.latest("evaluation")
    if posted is None:
        return ()
    reported = as_mapping(as_mapping(posted.value).get("evaluators"))
    panels = []
    for evaluator in islice(state.evaluation.evaluators.values(), MAX_SHOWN):
        fields = as_mapping(reported.get(evaluator.id))
        scores = [score for score in state.evaluation.scores if score.evaluator == evaluator.id]
        panels.append(
            EvaluatorPanel(
                id=evaluator.id,
                update=posted.update,
                provenance={name: value for name, value in fields.items() if name != "items"},
                items=_items(evaluator.items, as_mapping(fields.get("items"))),
                scores=tuple(scores[:MAX_SHOWN]),
                more_scores=max(0, len(scores) - MAX_SHOWN),
                problems=evaluator.problems,
            )
        )
    return tuple(panels)


def _items(ids: tuple[str, ...] | None, reported: Mapping[str, JsonValue]) -> str:
    if ids is not None:
        return f"{len(ids)} by name"
    return "as a manifest names them" if reported else "unknown"
