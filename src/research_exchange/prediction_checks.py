"""What the retained predictions say about the scores that were reported from them (R-134, R-147, R-16B)."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.evaluation import SCORE_TOLERANCE, Evaluation, Score
from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.fields import is_number, is_same, show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.predictions import PredictionFiles
from research_exchange.statistics import mean

__all__ = ["PredictionCheck", "backed_scores", "check_predictions"]

MAX_ROW_VISITS = 1_000_000
"""More than twice the rows that a run's evidence has room for; having them read again and again is cut off."""

Row = Mapping[str, JsonValue]


@dataclass(frozen=True)
class PredictionCheck:
    """What the predictions behind scores lead to."""

    false: tuple[Problem, ...] = ()
    """What contradicts a score."""
    gaps: tuple[Problem, ...] = ()
    """What is missing to bear it out."""


def check_predictions(
    evaluation: Evaluation, files: PredictionFiles, trained: Mapping[str, Collection[str]]
) -> PredictionCheck:
    """Every score is borne out by the predictions behind it, and all of them grade against the same answers.

    Args:
        trained: Checkpoint URI to the arms that it was reported as a checkpoint of.
    """
    false: list[Problem] = []
    gaps: list[Problem] = _unnamed(evaluation, files)
    visits = 0
    for score in evaluation.scores:
        if score.predictions is None:
            continue
        visits += len(_rows_behind(score, files))
        if visits > MAX_ROW_VISITS:
            gaps.append(_TOO_MANY)
            break
        check = _check_score(score, evaluation, files)
        false += (*check.false, *_check_checkpoint(score, files, trained))
        gaps += check.gaps
    gaps += _other_answers(evaluation, files)
    return PredictionCheck((*false, *_check_references(evaluation, files)), tuple(gaps))


_TOO_MANY = Problem(
    "R-134",
    "evaluation.scores",
    "each prediction behind one score",
    f"scores that have more than {MAX_ROW_VISITS} read",
    "Name each file once for each arm, metric and seed.",
)


def backed_scores(evaluation: Evaluation, files: PredictionFiles) -> Iterator[tuple[Score, Sequence[Row]]]:
    """Each score with the rows behind it; those without any are left out."""
    visits = 0
    for score in evaluation.scores:
        rows = _rows_behind(score, files)
        visits += len(rows)
        if visits > MAX_ROW_VISITS:
            return
        if rows:
            yield score, rows


def _unnamed(evaluation: Evaluation, files: PredictionFiles) -> list[Problem]:
    """Predictions of a score that are retained and not named by it would escape every check (R-133)."""
    scores = [score for score in evaluation.scores if score.predictions is None]
    held: dict[tuple[JsonValue, ...], str] = {}
    for file in files.shelf.files if scores else ():
        if file.kind == "predictions":
            try:
                rows = files.read(file.name).rows
            except EvidenceLost:
                continue
            for row in rows:
                keys = (row["arm"], row.get("metric"), row.get("evaluator_id"), row.get("seed"))
                if all(isinstance(key, (str, int, type(None))) for key in keys):
                    held.setdefault(keys, file.name)
    found = []
    for score in scores:
        key = (score.arm, score.metric, score.evaluator)
        name = held.get((*key, score.seed)) or held.get((*key, None))
        if name is not None:
            expected, action = (
                f"{show(name)}, which holds rows of it",
                "Name the predictions that the score was made of.",
            )
            found.append(Problem("R-133", f"{score.path}.predictions_ref", expected, "nothing", action))
    return found[:MAX_PROBLEMS]


def _other_answers(evaluation: Evaluation, files: PredictionFiles) -> list[Problem]:
    """A run does not choose among the answers that it retains: those of another file are the same (R-137)."""
    others = [file.name for file in files.shelf.files if file.kind == "predictions"]
    named = {(s.arm, s.metric, s.evaluator, s.seed, s.predictions): s for s in evaluation.scores if s.predictions}
    found: list[Problem] = []
    visits = 0
    for score in named.values() if len(others) > 1 else ():
        told = {str(row["item_id"]): row for row in _rows_behind(score, files)}
        for name in others if told else ():
            rows = _rows_in(name, score, files)
            visits += len(rows)
            if visits > MAX_ROW_VISITS:
                return [*found, _TOO_MANY]
            differing = (row for row in rows if _differ(told.get(str(row["item_id"])), row))
            row = None if name == score.predictions else next(differing, None)
            if row is not None:
                expected = f"the only answer to {show(row['item_id'])}"
                what = f"another answer or grade in {show(name)}"
                action = "Name in checkpoint which weights answered, or keep one answer: choosing is not scoring."
                found.append(Problem("R-137", f"{score.path}.predictions_ref", expected, what, action))
        if len(found) >= MAX_PROBLEMS:
            break
    return found


def _differ(row: Row | None, other: Row) -> bool:
    """Whether the same weights answered the same item in two ways, or one answer has two grades."""
    if row is None or not is_same(row.get("checkpoint"), other.get("checkpoint")):
        return False
    grades = [each.get("value") for each in (row, other)]
    return not is_same(row["prediction"], other["prediction"]) or (None not in grades and not is_same(*grades))


def _check_checkpoint(
    score: Score, files: PredictionFiles, trained: Mapping[str, Collection[str]]
) -> tuple[Problem, ...]:
    """Rows that say which weights answered do not name another arm's (R-134)."""
    for row in _rows_behind(score, files) if trained else ():
        uri = row.get("checkpoint")
        arms = trained.get(uri, ()) if isinstance(uri, str) else ()
        if arms and score.arm not in arms:
            expected = f"answers of a checkpoint of {show(score.arm)}"
            found, action = f"those of {show_names(sorted(arms))}", "Score each arm from its own weights."
            return (Problem("R-134", f"{score.path}.predictions_ref", expected, found, action),)
    return ()


def _check_score(score: Score, evaluation: Evaluation, files: PredictionFiles) -> PredictionCheck:
    """The predictions behind a score are retained, one row for each item, under the score's arm and evaluator."""
    path = f"{score.path}.predictions_ref"
    file = files.shelf.find(score.predictions or "")
    if file is None or file.kind != "predictions":
        found = "no such file" if file is None else f"a file of kind {file.kind}"
        action = "Attach the predictions as kind predictions."
        return PredictionCheck(gaps=(Problem("R-133", path, "a retained file of kind predictions", found, action),))
    try:
        predictions = files.read(file.name)
    except EvidenceLost as lost:
        problem = Problem("R-16C", path, "the bytes that were accepted", str(lost), "Attach the file again, renamed.")
        return PredictionCheck(gaps=(problem,))
    if predictions.bad_line is not None:
        found = f"line {predictions.bad_line} is not a row"
        action = "Write one JSON object with item_id, arm, prediction and reference per line."
        return PredictionCheck(gaps=(Problem("R-16B", path, "JSON Lines of predictions", found, action),))
    rows = predictions.of(score.arm, score.metric, score.evaluator, score.seed)
    if not rows:
        expected = f"rows of {show(score.arm)}, {show(score.metric)} under this score's evaluator"
        if score.arm in predictions.unlabelled:
            found, action = "rows that leave out one of the two", "Write metric and evaluator_id into each row."
            return PredictionCheck(gaps=(Problem("R-134", path, expected, found, action),))
        action = "Score again with the evaluator that is claimed; rows are never relabelled."
        return PredictionCheck(false=(Problem("R-134", path, expected, "none", action),))
    return _check_items(score, evaluation, rows, path) or _check_values(score, rows, path)


def _check_references(evaluation: Evaluation, files: PredictionFiles) -> tuple[Problem, ...]:
    """An item has one right answer under one evaluator, whichever arm is asked (R-134)."""
    first: dict[tuple[str, str], tuple[JsonValue, Score]] = {}
    found: list[Problem] = []
    for score, rows in backed_scores(evaluation, files):
        for row in rows:
            reference, earlier = first.setdefault((score.evaluator, str(row["item_id"])), (row["reference"], score))
            if not is_same(reference, row["reference"]):
                expected = f"{show(reference)} as the reference of {show(row['item_id'])}, as for {show(earlier.arm)}"
                action = "Grade every arm against the same answers; score again under a new evaluator."
                path = f"{score.path}.predictions_ref"
                found.append(Problem("R-134", path, expected, show(row["reference"]), action))
                break
        if len(found) == MAX_PROBLEMS:
            break
    return tuple(found)


def _rows_behind(score: Score, files: PredictionFiles) -> Sequence[Row]:
    """The rows of a score's predictions; none where they are not retained or cannot be read."""
    file = files.shelf.find(score.predictions) if score.predictions is not None else None
    return () if file is None or file.kind != "predictions" else _rows_in(file.name, score, files)


def _rows_in(name: str, score: Score, files: PredictionFiles) -> Sequence[Row]:
    """The rows of a prediction file that are a score's; none where it cannot be read back."""
    try:
        return files.read(name).of(score.arm, score.metric, score.evaluator, score.seed)
    except EvidenceLost:
        return ()


def _check_items(score: Score, evaluation: Evaluation, rows: Sequence[Row], path: str) -> PredictionCheck | None:
    """Each item of the evaluator once, failures included; None where nothing is wrong."""
    counts = Counter(str(row["item_id"]) for row in rows)
    twice = next((item for item, count in counts.items() if count > 1), None)
    if twice is not None:
        action = "Keep one row for each item and arm; the first answer counts."
        found = f"{counts[twice]} rows of {show(twice)}"
        return PredictionCheck(false=(Problem("R-134", path, "one row for each item", found, action),))
    expected_items = evaluation.evaluators[score.evaluator].items
    if expected_items is None or counts.keys() == set(expected_items):
        return None
    expected = f"a row for each of the evaluator's {len(expected_items)} items"
    action = "Keep invalid outputs as rows; a failed item scores 0."
    found = f"{len(counts)} other or fewer items"
    return PredictionCheck(gaps=(Problem("R-134", path, expected, found, action),))


def _check_values(score: Score, rows: Sequence[Row], path: str) -> PredictionCheck:
    """Prediction rows that carry a grade bear the score out (R-147)."""
    values = [row["value"] for row in rows if "value" in row]
    numbers = [value for value in values if is_number(value)]
    if not values or (len(numbers) == len(rows) and abs(mean(numbers) - score.value) <= SCORE_TOLERANCE):
        return PredictionCheck()
    whole = len(numbers) == len(rows)
    expected = f"grades with the mean {score.value!r}, which is the score"
    found = f"the mean {mean(numbers)!r}" if whole else "values that are no numbers, or not in every row"
    action = "Report the mean of the grades as they are."
    return PredictionCheck(false=(Problem("R-147", path, expected, found, action),))
