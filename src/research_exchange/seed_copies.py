"""Training seeds that are one seed told twice (R-154): the same rows, or the same values, under two seeds.

Two trainings from different seeds may well score the same on a few items; on hundreds of them they hardly do. So equal
values are for a reader to weigh, with how many they are. One file behind two seeds is no second training.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice

from research_exchange.decision_grid import Grid
from research_exchange.documents.evaluation import Evaluation, Score
from research_exchange.documents.fields import show
from research_exchange.documents.gates import Flag, Problem
from research_exchange.documents.json import JsonValue, canonical
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.spec import BASE_ARM, Spec
from research_exchange.prediction_checks import backed_scores
from research_exchange.predictions import PredictionFiles

__all__ = ["copied_answers", "copied_files", "copied_values"]

_Key = tuple[str, str, str, Hashable]
"""Arm, metric, evaluator, and what must not be the same under two seeds."""


def copied_files(spec: Spec, evaluation: Evaluation, files: PredictionFiles) -> list[Problem]:
    """Rows that do not say their seed, in one file or in two of the same bytes, behind two seeds of a trained arm."""
    first: dict[_Key, Score] = {}
    found: list[Problem] = []
    seeds = _Seeds(spec, evaluation)
    for score, rows in backed_scores(evaluation, files):
        file = files.shelf.find(score.predictions or "")
        if file is None or not seeds.are_several(score) or all(row.get("seed") is not None for row in rows):
            continue
        earlier = first.setdefault((score.arm, score.metric, score.evaluator, file.sha256), score)
        if earlier.seed != score.seed:
            expected = f"answers of seed {score.seed} of {show(score.arm)}"
            what = f"the very bytes behind seed {earlier.seed}, in {show(earlier.predictions)}"
            action = "Keep what each training answered, with its seed in each row; one training is one seed."
            found.append(Problem("R-154", f"{score.path}.predictions_ref", expected, what, action))
    return found[:MAX_PROBLEMS]


def copied_answers(spec: Spec, evaluation: Evaluation, files: PredictionFiles, update: int) -> list[Flag]:
    """Trained arms that answered every item word for word alike under two seeds; `update` is the evaluation's."""
    seeds = _Seeds(spec, evaluation)
    answers = (
        ((score.arm, score.metric, score.evaluator, _answers(rows)), score.seed, len(rows))
        for score, rows in backed_scores(evaluation, files)
        if seeds.are_several(score) and any(row["prediction"] is not None for row in rows)
    )
    return _flags(answers, "answers", "word for word", update)


def copied_values(spec: Spec, grids: Mapping[str, Grid], update: int | None) -> list[Flag]:
    """Trained arms whose values are the same on every item under two seeds, and not the same on all items.

    Args:
        grids: Metric to the values that were decided on, which this update reported.
    """
    frozen = _frozen(spec)
    values = (
        ((arm, metric, grid.evaluator, tuple(grid.column(arm, seed))), seed, len(grid.items))
        for metric, grid in grids.items()
        for arm, seed in grid.columns
        if arm not in frozen and len(grid.seeds) > 1 and len(set(grid.column(arm, seed))) > 1
    )
    return _flags(values, "values", "one by one", update)


def _flags(found: Iterator[tuple[_Key, int | None, int]], what: str, how: str, update: int | None) -> list[Flag]:
    return list(islice(_repeated(found, what, how, update), MAX_PROBLEMS))


def _repeated(found: Iterator[tuple[_Key, int | None, int]], what: str, how: str, update: int | None) -> Iterator[Flag]:
    first: dict[_Key, int | None] = {}
    for key, seed, n in found:
        earlier = first.setdefault(key, seed)
        if earlier != seed:
            arm, metric, *_ = key
            text = f"has the same {what} {how} for seeds {earlier} and {seed} of {show(arm)}"
            yield Flag("R-154", update, f"{text} on all {n} items of {show(metric)}: were both trained?")


def _answers(rows: Sequence[Mapping[str, JsonValue]]) -> Hashable:
    return frozenset((str(row["item_id"]), canonical(row["prediction"])) for row in rows)


class _Seeds:
    """What was scored under several seeds; arms without a training do not count, whose weights answer alike."""

    def __init__(self, spec: Spec, evaluation: Evaluation) -> None:
        self._frozen = _frozen(spec)
        self._seeds: dict[tuple[str, str, str], set[int]] = {}
        for score in evaluation.scores:
            if score.seed is not None:
                self._seeds.setdefault((score.arm, score.metric, score.evaluator), set()).add(score.seed)

    def are_several(self, score: Score) -> bool:
        """Whether this is one of several scores that must come from a training each."""
        seeds = self._seeds.get((score.arm, score.metric, score.evaluator), ())
        return score.seed is not None and score.arm not in self._frozen and len(seeds) > 1


def _frozen(spec: Spec) -> frozenset[str]:
    return frozenset({BASE_ARM, *(arm.name for arm in spec.arms if arm.is_trained is False)})
