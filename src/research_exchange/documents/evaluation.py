"""The `evaluation` part of an update: who scored what, and with which frozen evaluator (R-130 to R-133)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from research_exchange.documents.fields import (
    as_list,
    as_mapping,
    at_path,
    is_number,
    is_sha256,
    is_text,
    is_whole,
    show,
)
from research_exchange.documents.gates import Problem
from research_exchange.documents.items import Manifest, item_ids, manifest_of
from research_exchange.documents.json import JsonValue, canonical

__all__ = [
    "SCORE_TOLERANCE",
    "Comparison",
    "Evaluation",
    "Evaluator",
    "Score",
    "evaluator_id",
    "parse_evaluation",
]

SCORE_TOLERANCE = 1e-9
"""Absolute difference allowed between a reported score and the mean of its rows (R-147)."""
MAX_EVALUATORS, MAX_SCORES, MAX_COMPARISONS = 100, 10_000, 1_000
"""Of one report: far more than a run has, few enough that a sentence for each thing wrong stays affordable."""

_Entry = TypeVar("_Entry")
_SCORED_THINGS = ("model", "checkpoint", "base_model", "adapter")
"""What an evaluator is applied to; naming it would give each arm its own evaluator (R-131)."""


def evaluator_id(provenance: JsonValue) -> str:
    """sha256 over the canonical JSON of a provenance (R-132). 0 and 0.0 differ: hash it as it was received.

    Raises:
        ValueError: if it holds NaN or an infinity.
    """
    return sha256(canonical(provenance)).hexdigest()


@dataclass(frozen=True)
class Evaluator:
    """One frozen way of scoring: code, prompt, decoding, parser and items."""

    id: str
    """The key it is reported under."""
    items: tuple[str, ...] | None
    """Explicit item ids; None where a manifest names them or they are malformed."""
    manifest: Manifest | None
    contradictions: tuple[Problem, ...]
    """What is false about it, such as an id that is not the hash of its provenance."""
    gaps: tuple[Problem, ...]
    """What is missing or malformed."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.contradictions + self.gaps


@dataclass(frozen=True)
class Score:
    """One number an evaluator gave an arm."""

    path: str
    arm: str
    metric: str
    value: int | float
    evaluator: str
    seed: int | None
    predictions: str | None
    """The evidence file with the per-item predictions behind it."""


@dataclass(frozen=True)
class Comparison:
    """Arms the runner compares on a metric."""

    path: str
    metric: str
    arms: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """A parsed report; what could not be read stands in `gaps`."""

    evaluators: Mapping[str, Evaluator]
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...]
    gaps: tuple[Problem, ...]


def parse_evaluation(value: JsonValue) -> Evaluation:
    """Reads a report. Never raises: what is malformed is left out and named in `gaps`."""
    report = as_mapping(value)
    gaps: list[Problem] = []
    version = report.get("version")
    if not is_whole(version) or version != 1:
        gaps.append(Problem("R-130", "evaluation.version", "1", show(version), "Report version 1."))
    provenances = as_mapping(report.get("evaluators"))
    names = _first(list(provenances), MAX_EVALUATORS, "evaluation.evaluators", gaps)
    evaluators = {name: _evaluator(name, provenances[name]) for name in names}
    scores = [
        _score(entry, f"evaluation.scores[{index}]", evaluators, gaps)
        for index, entry in enumerate(_first(as_list(report.get("scores")), MAX_SCORES, "evaluation.scores", gaps))
    ]
    reported = _first(as_list(report.get("comparisons")), MAX_COMPARISONS, "evaluation.comparisons", gaps)
    comparisons = [_comparison(entry, f"evaluation.comparisons[{index}]", gaps) for index, entry in enumerate(reported)]
    return Evaluation(
        evaluators=evaluators,
        scores=tuple(score for score in scores if score is not None),
        comparisons=tuple(comparison for comparison in comparisons if comparison is not None),
        gaps=tuple(gaps),
    )


def _first(entries: Sequence[_Entry], most: int, path: str, gaps: list[Problem]) -> Sequence[_Entry]:
    if len(entries) > most:
        gaps.append(
            Problem("R-130", path, f"at most {most}", f"{len(entries)}", "Report what is compared, and no more.")
        )
    return entries[:most]


def _evaluator(key: str, provenance: JsonValue) -> Evaluator:
    path = f"evaluation.evaluators[{show(key)}]"
    fields = as_mapping(provenance)
    items = as_mapping(fields.get("items"))
    ids, manifest = item_ids(items.get("ids")), manifest_of(items)
    return Evaluator(
        id=key,
        items=ids if manifest is None else None,
        manifest=manifest if "ids" not in items else None,
        contradictions=_contradictions(key, fields, path),
        gaps=_provenance_gaps(fields, path) + _item_gaps(items, ids, manifest, f"{path}.items"),
    )


def _contradictions(key: str, provenance: Mapping[str, JsonValue], path: str) -> tuple[Problem, ...]:
    found = []
    try:
        recomputed = evaluator_id(provenance)
    except ValueError:
        recomputed = None
    if recomputed != key:
        action = "Report scores under the id of the evaluator that made them; a changed evaluator scores again."
        expected = recomputed or "a provenance of finite numbers"
        found.append(Problem("R-132", path, expected, "this key", action))
    for name in _SCORED_THINGS:
        if name in provenance:
            action = "Take it out: an evaluator is the same for every arm it scores."
            found.append(Problem("R-131", f"{path}.{name}", "no scored model or checkpoint", "one", action))
    return tuple(found)


def _provenance_gaps(provenance: Mapping[str, JsonValue], path: str) -> tuple[Problem, ...]:
    decoding = as_mapping(provenance.get("decoding"))
    checks = (
        ("code_sha256", is_sha256(provenance.get("code_sha256")), "64 lower-case hexadecimal digits"),
        ("prompt_template", is_text(provenance.get("prompt_template")), "the prompt template"),
        ("parser", is_text(provenance.get("parser")), "the name of the parser"),
        ("decoding.temperature", is_number(decoding.get("temperature")), "a number"),
        ("decoding.max_tokens", is_whole(decoding.get("max_tokens")), "a whole number"),
        ("decoding.stop", "stop" in decoding, "the stop sequences"),
    )
    action = "Complete the provenance before scoring; that makes a new evaluator."
    return tuple(
        Problem("R-131", f"{path}.{name}", expected, show(at_path(provenance, name)), action)
        for name, holds, expected in checks
        if not holds
    )


def _item_gaps(
    items: Mapping[str, JsonValue], ids: tuple[str, ...] | None, manifest: Manifest | None, path: str
) -> tuple[Problem, ...]:
    has_ids, has_manifest = "ids" in items, "manifest_ref" in items or "manifest_sha256" in items
    action = "Freeze the items before scoring: their ids, or a manifest kept as evidence."
    if has_ids == has_manifest:
        found = "both" if has_ids else "neither"
        return (Problem("R-131", path, "exactly one of ids and a manifest", found, action),)
    if has_ids and ids is None:
        expected = "a list of different, non-empty strings"
        return (Problem("R-131", f"{path}.ids", expected, "a list that is not one", action),)
    if has_manifest and manifest is None:
        return (Problem("R-131", path, "manifest_ref and manifest_sha256", "an incomplete manifest", action),)
    return ()


def _score(entry: JsonValue, path: str, evaluators: Mapping[str, Evaluator], gaps: list[Problem]) -> Score | None:
    score = as_mapping(entry)
    arm, metric, value, evaluator = (score.get(name) for name in ("arm", "metric", "value", "evaluator_id"))
    seed, predictions = score.get("seed"), score.get("predictions_ref")
    known = isinstance(evaluator, str) and evaluator in evaluators
    checks = (
        ("arm", is_text(arm), "the name of an arm"),
        ("metric", is_text(metric), "the name of a metric"),
        ("value", is_number(value), "a finite number"),
        ("evaluator_id", known, "an id defined in evaluation.evaluators"),
        ("seed", seed is None or is_whole(seed), "a whole number, or no seed"),
        ("predictions_ref", predictions is None or is_text(predictions), "the name of an evidence file, or nothing"),
    )
    bad = [
        Problem("R-133", f"{path}.{name}", expected, show(score.get(name)), "Correct the score row.")
        for name, holds, expected in checks
        if not holds
    ]
    gaps.extend(bad)
    if bad or not (is_text(arm) and is_text(metric) and is_number(value) and isinstance(evaluator, str)):
        return None
    return Score(
        path=path,
        arm=arm,
        metric=metric,
        value=value,
        evaluator=evaluator,
        seed=seed if is_whole(seed) else None,
        predictions=predictions if is_text(predictions) else None,
    )


def _comparison(entry: JsonValue, path: str, gaps: list[Problem]) -> Comparison | None:
    comparison = as_mapping(entry)
    metric, arms = comparison.get("metric"), as_list(comparison.get("arms"))
    names = tuple(arm for arm in arms if is_text(arm))
    if is_text(metric) and len(names) == len(arms) == len(set(names)) and len(names) > 1:
        return Comparison(path, metric, names)
    expected = "a metric and at least two different arms"
    gaps.append(Problem("R-130", path, expected, show(entry), "Say which arms are compared on which metric."))
    return None
