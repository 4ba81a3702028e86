"""The run's report of a correctness preflight: the errors that were measured, path by path (R-102)."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.documents.correctness_plan import is_scalar
from research_exchange.documents.fields import as_list, as_mapping, is_number, is_sha256, is_size, is_text, show
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.limits import first

__all__ = ["CorrectnessReport", "Errors", "Probe", "ReportedPath", "parse_errors", "parse_report"]

MAX_PATHS, MAX_COMPARISONS, MAX_PROBES = 100, 50, 1_000
"""Of one report: far more than a run has, few enough that a sentence for each thing wrong stays affordable."""

_COSINE_SLACK = 1e-9
"""How far beyond [-1, 1] rounding may push a cosine (R-105)."""
_SECTION = "correctness_preflight"
_MEASURE = "Report what was measured on the fixed input; a pass flag says nothing."
_SIZES = ("max_abs_error", "reference_max_abs", "relative_l2_error")


@dataclass(frozen=True)
class Errors:
    """The measured errors of one comparison; None for a number that is missing, undefined or no such number."""

    path: str
    """Where they stand in the report."""
    max_abs_error: float | None
    reference_max_abs: float | None
    relative_l2_error: float | None
    cosine_similarity: float | None
    gaps: tuple[Problem, ...]


@dataclass(frozen=True)
class Probe:
    """One optimizer step from the same state, at one learning rate."""

    learning_rate: float
    update_norm: float
    factor: str | None
    """Which part of the update the norm is of, where parts are probed one by one."""


@dataclass(frozen=True)
class ReportedPath:
    """What was measured on one path."""

    path: str
    """Where it stands in the report."""
    id: str
    input_sha256: str | None
    baseline_revision: JsonValue
    reference_revision: JsonValue
    implementation_revision: str | None
    """Of the code that was measured; None where it is not stated."""
    errors: Mapping[str, Errors]
    probes: tuple[Probe, ...]
    scaling_gaps: tuple[Problem, ...]
    """What could not be read of the probes; it matters where the plan asks for them."""
    gaps: tuple[Problem, ...]


@dataclass(frozen=True)
class CorrectnessReport:
    """A parsed report; what could not be read stands in `gaps`."""

    required: JsonValue
    """As reported; only true asks for the check."""
    paths: tuple[ReportedPath, ...]
    gaps: tuple[Problem, ...]


def parse_report(value: JsonValue) -> CorrectnessReport:
    """Reads the run's `correctness_preflight`. Never raises: what is malformed is left out and named in `gaps`."""
    report = as_mapping(value)
    gaps: list[Problem] = []
    entries = first(as_list(report.get("paths")), MAX_PATHS, f"{_SECTION}.paths", "R-102", gaps)
    paths = [_reported_path(as_mapping(entry), f"{_SECTION}.paths[{index}]") for index, entry in enumerate(entries)]
    return CorrectnessReport(report.get("required"), tuple(paths), tuple(gaps))


def parse_errors(value: JsonValue, comparison: str, path: str) -> Errors:
    """Reads the four errors of a comparison that stand at `path` (R-104, R-105). Never raises."""
    measured = as_mapping(value)
    largest, reference, relative = (_size(measured.get(name)) for name in _SIZES)
    cosine = _cosine(measured.get("cosine_similarity"))
    size, direction = "a finite number of at least 0", "a number in [-1, 1]"
    numbers = (
        ("max_abs_error", largest, size, False),
        ("reference_max_abs", reference, size, False),
        ("relative_l2_error", relative, size, reference == 0),
        ("cosine_similarity", cosine, direction, reference == 0 or is_scalar(comparison)),
    )
    return Errors(
        path=path,
        max_abs_error=largest,
        reference_max_abs=reference,
        relative_l2_error=relative,
        cosine_similarity=cosine,
        gaps=tuple(
            Problem("R-105", f"{path}.{name}", expected, show(measured.get(name)), _MEASURE)
            for name, number, expected, may_be_undefined in numbers
            if number is None and not (may_be_undefined and measured.get(name) is None)
        ),
    )


def _reported_path(entry: Mapping[str, JsonValue], path: str) -> ReportedPath:
    gaps: list[Problem] = []
    name, fixed_input = entry.get("id"), as_mapping(entry.get("fixed_input"))
    digest, implementation = fixed_input.get("sha256"), entry.get("implementation_revision")
    stated = (
        ("id", name),
        ("fixed_input.description", fixed_input.get("description")),
        ("implementation_revision", implementation),
        ("precision", entry.get("precision")),
        ("normalization", entry.get("normalization")),
    )
    for field, value in stated:
        if not is_text(value):
            gaps.append(Problem("R-10A", f"{path}.{field}", "a non-empty string", show(value), "State it."))
    if not is_sha256(digest):
        expected, action = "64 lower-case hexadecimal digits", "Hash the bytes of the fixed input."
        gaps.append(Problem("R-10A", f"{path}.fixed_input.sha256", expected, show(digest), action))
    errors = as_mapping(entry.get("errors"))
    names = first(list(errors), MAX_COMPARISONS, f"{path}.errors", "R-102", gaps)
    scaling_gaps: list[Problem] = []
    return ReportedPath(
        path=path,
        id=name if is_text(name) else "",
        input_sha256=digest if is_sha256(digest) else None,
        baseline_revision=entry.get("baseline_revision"),
        reference_revision=entry.get("reference_revision"),
        implementation_revision=implementation if is_text(implementation) else None,
        errors={name: parse_errors(errors[name], name, f"{path}.errors.{name}") for name in names},
        probes=_probes(entry.get("lr_scaling"), f"{path}.lr_scaling", scaling_gaps),
        scaling_gaps=tuple(scaling_gaps),
        gaps=tuple(gaps),
    )


def _probes(value: JsonValue, path: str, gaps: list[Problem]) -> tuple[Probe, ...]:
    entries = first(as_list(value), MAX_PROBES, path, "R-107", gaps)
    probes = []
    for index, entry in enumerate(entries):
        probe = as_mapping(entry)
        rate, norm, factor = (probe.get(name) for name in ("learning_rate", "update_norm", "factor"))
        if is_number(rate) and is_number(norm) and (factor is None or is_text(factor)):
            probes.append(Probe(float(rate), float(norm), factor))
        else:
            expected = "the numbers learning_rate and update_norm, and a factor's name or none"
            gaps.append(Problem("R-107", f"{path}[{index}]", expected, "a probe without them", _MEASURE))
    return tuple(probes)


def _size(value: JsonValue) -> float | None:
    return float(value) if is_size(value) else None


def _cosine(value: JsonValue) -> float | None:
    return float(value) if is_number(value) and abs(value) <= 1 + _COSINE_SLACK else None
