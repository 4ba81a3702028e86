"""The spec's plan of a correctness preflight: what is measured against what, and how near it has to come (R-101)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_size, is_text, show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.limits import first

__all__ = [
    "COMPARISONS",
    "CorrectnessPlan",
    "LrScaling",
    "PathKind",
    "PlannedPath",
    "Tolerance",
    "is_pinned",
    "is_scalar",
    "parse_plan",
    "parse_tolerance",
]


class PathKind(StrEnum):
    """What a new path computes."""

    LOSS = "loss"
    OPTIMIZER = "optimizer"


COMPARISONS: Mapping[PathKind, tuple[str, ...]] = {
    PathKind.LOSS: ("baseline_loss", "baseline_gradient", "reference_loss", "reference_gradient"),
    PathKind.OPTIMIZER: ("baseline_update", "reference_update"),
}
"""What a plan has to compare (R-103). Others that it lists, such as `packed_loss`, are asked for as well (R-10C)."""

MAX_PATHS, MAX_COMPARISONS = 100, 50
"""Of one plan: far more than a run has, few enough that a sentence for each thing wrong stays affordable."""

_MOVING = frozenset({"main", "master", "head", "latest"})
_SECTION = "correctness_preflight"
_REVISE = "Save a revised version of the spec; nothing that was measured before then counts."


@dataclass(frozen=True)
class Tolerance:
    """How far apart two results may lie: `atol + rtol * reference_max_abs`, and as parallel as `min_cosine`."""

    atol: float
    rtol: float
    min_cosine: float | None

    def limit(self, reference_max_abs: float) -> float:
        """The largest error that is accepted beside a reference of this size (R-104)."""
        return self.atol + self.rtol * reference_max_abs


@dataclass(frozen=True)
class LrScaling:
    """How nearly the norm of an update has to grow in proportion to the learning rate (R-107)."""

    tolerance: float
    """Of the relative change of norm / rate against the first probe."""
    learning_rates: tuple[float, ...] | None
    """The rates to probe, in order; None leaves the choice to the runner."""
    factors: tuple[str, ...] | None
    """The factors to probe one by one; None where the plan names none."""


@dataclass(frozen=True)
class PlannedPath:
    """One new way of computing, and what it is measured against."""

    id: str
    kind: PathKind
    baseline_revision: str
    reference_revision: str
    tolerances: Mapping[str, Tolerance]
    lr_scaling: LrScaling | None


@dataclass(frozen=True)
class CorrectnessPlan:
    """A spec's plan; it is accepted where there are no gaps (R-109)."""

    paths: tuple[PlannedPath, ...]
    """Those that could be read."""
    gaps: tuple[Problem, ...]


def is_pinned(revision: JsonValue) -> bool:
    """Whether a revision names one state of the code for ever, as far as its name can tell (R-109)."""
    return is_text(revision) and not _is_unresolved(revision) and _last_part(revision) not in _MOVING


def is_scalar(comparison: str) -> bool:
    """Whether a comparison is of losses, single numbers that have no direction and may well be 0 (R-106)."""
    return comparison.endswith("_loss")


def parse_plan(value: JsonValue) -> CorrectnessPlan:
    """Reads the spec's `correctness_preflight`. Never raises: what is malformed is named in `gaps`."""
    plan = as_mapping(value)
    gaps: list[Problem] = []
    entries = first(as_list(plan.get("paths")), MAX_PATHS, f"{_SECTION}.paths", "R-101", gaps)
    paths = [
        _planned_path(as_mapping(entry), f"{_SECTION}.paths[{index}]", gaps) for index, entry in enumerate(entries)
    ]
    if not entries:
        expected = "a plan with a path for each new loss or optimizer"
        found = show(plan.get("paths"))
        gaps.append(Problem("R-109", f"{_SECTION}.paths", expected, found, "Request a revision of the spec."))
    ids = [as_mapping(entry).get("id") for entry in entries]
    if len({str(name) for name in ids}) < len(ids):
        gaps.append(
            Problem("R-101", f"{_SECTION}.paths", "paths with different ids", "an id that stands twice", _REVISE)
        )
    status = plan.get("status")
    if is_text(status) and _is_unresolved(status):
        gaps.append(Problem("R-109", f"{_SECTION}.status", "a plan that is resolved", show(status), _REVISE))
    return CorrectnessPlan(tuple(path for path in paths if path is not None), tuple(gaps))


def parse_tolerance(value: JsonValue, path: str, gaps: list[Problem]) -> Tolerance:
    """Reads one tolerance that stands at `path`. Never raises: what is malformed is added to `gaps`."""
    entry = as_mapping(value)
    atol, rtol, cosine = (entry.get(name) for name in ("atol", "rtol", "min_cosine"))
    for name, number in (("atol", atol), ("rtol", rtol)):
        if not is_size(number):
            gaps.append(Problem("R-101", f"{path}.{name}", "a number of at least 0", show(number), _REVISE))
    if cosine is not None and not (is_number(cosine) and abs(cosine) <= 1):
        gaps.append(Problem("R-101", f"{path}.min_cosine", "a number in [-1, 1], or none", show(cosine), _REVISE))
    _refuse_unknown(entry, ("atol", "rtol", "min_cosine"), path, gaps)
    return Tolerance(_float(atol) or 0.0, _float(rtol) or 0.0, _float(cosine))


def _planned_path(entry: Mapping[str, JsonValue], path: str, gaps: list[Problem]) -> PlannedPath | None:
    before = len(gaps)
    name, kind = entry.get("id"), _kind(entry.get("kind"))
    if not is_text(name):
        gaps.append(Problem("R-101", f"{path}.id", "a name", show(name), _REVISE))
    if kind is None:
        gaps.append(Problem("R-101", f"{path}.kind", show_names(list(PathKind)), show(entry.get("kind")), _REVISE))
    for field in ("reference_revision", "baseline_revision"):
        if not is_pinned(entry.get(field)):
            action = "Request a revision of the spec; do not choose a reference or a tolerance after measuring."
            gaps.append(Problem("R-109", f"{path}.{field}", "a pinned revision", show(entry.get(field)), action))
    tolerances = _tolerances(entry.get("tolerances"), kind, f"{path}.tolerances", gaps)
    scaling = _lr_scaling(entry.get("lr_scaling"), kind, f"{path}.lr_scaling", gaps)
    if len(gaps) > before or not is_text(name) or kind is None:
        return None
    baseline, reference = str(entry.get("baseline_revision")), str(entry.get("reference_revision"))
    return PlannedPath(name, kind, baseline, reference, tolerances, scaling)


def _kind(value: JsonValue) -> PathKind | None:
    return PathKind(value) if isinstance(value, str) and value in set(PathKind) else None


def _tolerances(value: JsonValue, kind: PathKind | None, path: str, gaps: list[Problem]) -> dict[str, Tolerance]:
    entries = as_mapping(value)
    required = COMPARISONS[kind] if kind is not None else ()
    for name in required:
        if name not in entries:
            gaps.append(Problem("R-103", f"{path}.{name}", "atol and rtol", "nothing", _REVISE))
    names = first(list(entries), MAX_COMPARISONS, path, "R-101", gaps)
    return {name: parse_tolerance(entries[name], f"{path}.{name}", gaps) for name in names}


def _lr_scaling(value: JsonValue, kind: PathKind | None, path: str, gaps: list[Problem]) -> LrScaling | None:
    if value is None:
        if kind is PathKind.OPTIMIZER:
            gaps.append(
                Problem("R-108", path, "a tolerance for the scaling with the learning rate", "nothing", _REVISE)
            )
        return None
    plan = as_mapping(value)
    tolerance, rates, factors = (plan.get(name) for name in ("tolerance", "learning_rates", "factors"))
    if not is_size(tolerance):
        gaps.append(Problem("R-107", f"{path}.tolerance", "a number of at least 0", show(tolerance), _REVISE))
    if rates is not None and not _are_rates(rates):
        expected = "at least two different positive numbers"
        gaps.append(Problem("R-107", f"{path}.learning_rates", expected, show(rates), _REVISE))
    if factors is not None and not _are_names(factors):
        gaps.append(Problem("R-107", f"{path}.factors", "different names, at least one", show(factors), _REVISE))
    _refuse_unknown(plan, ("tolerance", "learning_rates", "factors"), path, gaps)
    return LrScaling(
        tolerance=_float(tolerance) or 0.0,
        learning_rates=None if rates is None else tuple(float(rate) for rate in as_list(rates) if is_number(rate)),
        factors=None if factors is None else tuple(str(name) for name in as_list(factors)),
    )


def _refuse_unknown(entry: Mapping[str, JsonValue], known: Sequence[str], path: str, gaps: list[Problem]) -> None:
    """A field with an unknown name may be a condition that is misspelt: without it the plan would ask for less."""
    unknown = [name for name in entry if name not in known]
    if unknown:
        gaps.append(Problem("R-101", path, f"no other fields than {show_names(known)}", show_names(unknown), _REVISE))


def _are_rates(value: JsonValue) -> bool:
    rates = [float(rate) for rate in as_list(value) if is_number(rate) and rate > 0]
    return 1 < len(rates) == len(as_list(value)) == len(set(rates))


def _are_names(value: JsonValue) -> bool:
    names = [name for name in as_list(value) if is_text(name)]
    return 0 < len(names) == len(as_list(value)) == len(set(names))


def _float(value: JsonValue) -> float | None:
    return float(value) if is_number(value) else None


def _is_unresolved(text: str) -> bool:
    return text.strip().casefold().startswith("unresolved")


def _last_part(revision: str) -> str:
    """What a revision is counted from: `cookbook@main`, `origin/main` and `main~2` move as `main` does."""
    return re.split(r"[\s/@:#]+", revision.strip(" /@:#"))[-1].partition("~")[0].partition("^")[0].casefold()
