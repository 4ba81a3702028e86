"""The `feasibility` part of an update: how long a timing pilot took, and what the whole run plans (R-171, R-173)."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.documents.fields import as_mapping, is_size, is_text, is_whole, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue

__all__ = ["PHASES", "Feasibility", "Generation", "Measurement", "parse_feasibility"]

PHASES = ("setup", "training", "evaluation")
"""Measured by every run."""
MAX_PHASES = 50
"""Of one report: far more than a run has."""
MAX_SECONDS, MAX_GPUS = 1e15, 1e6
"""Of one projected phase: beyond any run, and small enough that every sum of them is a number."""

_MEASURE = "Time the real schedule in a short pilot and report what was measured."


@dataclass(frozen=True)
class Measurement:
    """One timed phase."""

    seconds: int | float
    units: int | float
    """What was done in that time: steps, items, candidates."""
    planned_units: int | float
    """What the whole run will do."""
    gpu_count: int | float | None
    """GPUs allocated for the phase, trainers and samplers; None where the allocation is not known."""

    @property
    def projected(self) -> float:
        """Seconds of the whole phase (R-172), at most `MAX_SECONDS`."""
        return self.seconds / self.units * self.planned_units


@dataclass(frozen=True)
class Generation:
    """The measured yield of generated tasks."""

    attempted: int
    accepted: int
    target_accepted: int
    filter_samples_per_candidate: int

    @property
    def candidates(self) -> int | None:
        """Candidates that the target needs, rounded up; None where none was accepted."""
        return -(-self.target_accepted * self.attempted // self.accepted) if self.accepted else None


@dataclass(frozen=True)
class Feasibility:
    """A parsed report; what could not be read is left out."""

    effective_config: Mapping[str, JsonValue]
    primary_endpoint: JsonValue
    measurements: Mapping[str, Measurement]
    generation: Generation | None
    generates: bool
    """The report has a `generation`, readable or not."""
    recovery: Measurement | None
    """The reserve, as one phase of one unit."""
    is_complete: bool
    """Whether everything that was timed could be read, and nothing of `PHASES` is missing."""
    findings: Findings


def parse_feasibility(value: JsonValue) -> Feasibility:
    """Reads a report. Never raises."""
    report = as_mapping(value)
    findings = Findings()
    for name, expected, holds in (
        ("source", "where the timings come from", is_text(report.get("source"))),
        ("effective_config", "the configuration that was timed", isinstance(report.get("effective_config"), Mapping)),
    ):
        if not holds:
            _miss("R-171", f".{name}", expected, report.get(name), findings)
    measured = as_mapping(report.get("measurements"))
    if len(measured) > MAX_PHASES:
        _miss("R-171", ".measurements", f"at most {MAX_PHASES} phases", measured, findings)
    names = [*PHASES, *(name for name in list(measured)[:MAX_PHASES] if name not in PHASES)]
    read = {name: _measurement(measured.get(name), f".measurements.{name}", findings) for name in names}
    generation, recovery = report.get("generation"), _recovery(report.get("recovery"), findings)
    return Feasibility(
        effective_config=as_mapping(report.get("effective_config")),
        primary_endpoint=report.get("primary_endpoint"),
        measurements={name: phase for name, phase in read.items() if phase is not None},
        generation=None if generation is None else _generation(as_mapping(generation), findings),
        generates=generation is not None,
        recovery=recovery,
        is_complete=recovery is not None and len(measured) <= MAX_PHASES and None not in read.values(),
        findings=findings,
    )


def _measurement(value: JsonValue, path: str, findings: Findings) -> Measurement | None:
    fields = as_mapping(value)
    seconds, units, planned = (fields.get(name) for name in ("seconds", "units", "planned_units"))
    samples = fields.get("samples")
    if not fields:
        _miss("R-171", path, "a measurement", value, findings)
        return None
    if not (is_whole(samples) and samples >= 0):
        _miss("R-173", f"{path}.samples", "a whole number of at least 0", samples, findings)
    gpus = _gpu_count(fields, path, findings)
    if not is_size(seconds):
        _miss("R-173", f"{path}.seconds", "a finite number of at least 0", seconds, findings)
    if not (is_size(units) and units > 0):
        _miss("R-173", f"{path}.units", "a finite number above 0", units, findings)
    if not is_size(planned):
        _miss("R-173", f"{path}.planned_units", "a finite number of at least 0", planned, findings)
    if is_size(seconds) and is_size(units) and units > 0 and is_size(planned):
        return _bounded(Measurement(seconds, units, planned, gpus), path, findings)
    return None


def _bounded(measurement: Measurement, path: str, findings: Findings) -> Measurement | None:
    if measurement.projected <= MAX_SECONDS:
        return measurement
    _miss("R-172", path, f"a projection of at most {MAX_SECONDS:g} seconds", measurement.projected, findings)
    return None


def _recovery(value: JsonValue, findings: Findings) -> Measurement | None:
    fields = as_mapping(value)
    seconds = fields.get("seconds")
    if not is_size(seconds):
        _miss("R-173", ".recovery.seconds", "a finite number of at least 0", seconds, findings)
        return None
    reserve = Measurement(seconds, 1, 1, _gpu_count(fields, ".recovery", findings))
    return _bounded(reserve, ".recovery", findings)


def _gpu_count(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> int | float | None:
    """A count above 0 stands only with the evidence of its allocation."""
    count, source = fields.get("gpu_count"), fields.get("allocation_source")
    if count is None:
        return None
    if not (is_size(count) and count <= MAX_GPUS):
        _miss("R-173", f"{path}.gpu_count", f"a number from 0 to {MAX_GPUS:g}, or null", count, findings)
        return None
    if count > 0 and not is_text(source):
        _miss("R-173", f"{path}.allocation_source", "what shows the allocation", source, findings)
        return None
    return count


def _generation(fields: Mapping[str, JsonValue], findings: Findings) -> Generation | None:
    attempted, accepted, target, samples = (
        fields.get(name) for name in ("attempted", "accepted", "target_accepted", "filter_samples_per_candidate")
    )
    if not (is_whole(attempted) and attempted > 0):
        _miss("R-176", ".generation.attempted", "a whole number above 0", attempted, findings)
    elif not (is_whole(accepted) and 0 <= accepted <= attempted):
        _miss("R-176", ".generation.accepted", f"a whole number from 0 to {attempted}", accepted, findings)
    elif not (is_whole(target) and target > 0):
        _miss("R-176", ".generation.target_accepted", "a whole number above 0", target, findings)
    elif not (is_whole(samples) and samples >= 0):
        _miss("R-176", ".generation.filter_samples_per_candidate", "a whole number of at least 0", samples, findings)
    else:
        return Generation(attempted, accepted, target, samples)
    return None


def _miss(rule: str, path: str, expected: str, found: JsonValue, findings: Findings) -> None:
    findings.miss(rule, f"feasibility{path}", expected, show(found), _MEASURE)
