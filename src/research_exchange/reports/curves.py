"""What a run logged step by step, as curves: one for each metric, arm and seed.

The rows stand in evidence files of the kind `metrics`, JSON lines with `step`, numbers and, where there are several,
`arm` and `seed`. A run that retains none is drawn from the metrics of its updates.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.fields import as_mapping, is_number, is_text, is_whole
from research_exchange.documents.json import DocumentError, JsonValue, parse_lines
from research_exchange.documents.run_document import RunDocument

__all__ = ["Chart", "Curve", "Curves", "Spot", "read_curves"]

MAX_CHARTS = 60
MAX_CURVES = 60
"""Of a metric."""
_UPDATES = "the run"
"""What a curve is called that belongs to no arm and comes from the run's updates."""
_NO_METRICS = frozenset({"step", "steps", "seed", "seconds_left"})
"""Numbers that say where a row belongs, or how far the work is."""


class Spot(NamedTuple):
    step: float
    value: float


@dataclass(frozen=True)
class Curve:
    group: str
    """The arm; the file's name for rows that name none, and both where two files have the same arm and seed."""
    seed: str | None
    spots: tuple[Spot, ...]
    """By step; of several rows at one step the last counts."""

    @property
    def name(self) -> str:
        return self.group if self.seed is None else f"{self.group}, seed {self.seed}"


@dataclass(frozen=True)
class Chart:
    """A metric over the steps."""

    metric: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Curves:
    charts: tuple[Chart, ...]
    """In the order in which the metrics were first logged."""
    notes: tuple[str, ...]
    """What could not be drawn, and where the rest is."""


class _Key(NamedTuple):
    arm: str | None
    seed: str | None
    source: str


@dataclass
class _Logged:
    """Rows, sorted by what they belong to."""

    metrics: dict[str, dict[_Key, dict[float, float]]]

    def add(self, source: str, value: JsonValue) -> bool:
        """Whether the row has a place. Rows without a step, and rows of single items, belong to no curve."""
        row = as_mapping(value)
        step, arm, seed = row.get("step"), row.get("arm"), row.get("seed")
        if not is_number(step) or "item_id" in row:
            return False
        key = _Key(arm if is_text(arm) else None, str(seed) if is_whole(seed) or is_text(seed) else None, source)
        for name, number in row.items():
            if name not in _NO_METRICS and is_number(number):
                self.metrics.setdefault(name, {}).setdefault(key, {})[step] = number
        return True


def read_curves(document: RunDocument) -> Curves:
    """Everything that was logged. Never raises on what a run retains."""
    logged, notes = _Logged({}), []
    for file in document.evidence:
        if file.kind != "metrics":
            continue
        placed = []
        try:
            for row in parse_lines(file.read()):
                placed.append(logged.add(file.name, row))
        except (DocumentError, EvidenceLost) as trouble:
            notes.append(f"{file.name} cannot be read in full, so some of it may be missing here: {trouble}")
        if any(placed) and not all(placed):
            notes.append(f"{placed.count(False):,} rows of {file.name} are not drawn: they name no step, or an item.")
    if not logged.metrics:
        for row in _reported(document):
            logged.add(_UPDATES, row)
        if logged.metrics:
            notes.append(
                "No metrics are retained in a file; this is drawn from what the run reported while it went on."
            )
    charts = [_chart(name, curves) for name, curves in logged.metrics.items()]
    if len(charts) > MAX_CHARTS:
        notes.append(f"{len(charts) - MAX_CHARTS:,} more metrics are in the files.")
    notes += [
        f"{len(chart.curves) - MAX_CURVES:,} more curves of {chart.metric} are in the files."
        for chart in charts[:MAX_CHARTS]
        if len(chart.curves) > MAX_CURVES
    ]
    shown = (Chart(chart.metric, chart.curves[:MAX_CURVES]) for chart in charts[:MAX_CHARTS])
    return Curves(tuple(shown), tuple(notes))


def _reported(document: RunDocument) -> Iterator[Mapping[str, JsonValue]]:
    """The metrics of updates that name a step."""
    for update in document.updates:
        metrics = as_mapping((update.body or {}).get("metrics"))
        if is_number(metrics.get("step")):
            yield metrics


def _chart(name: str, curves: Mapping[_Key, Mapping[float, float]]) -> Chart:
    found = [
        Curve(_group(key, curves), key.seed, tuple(Spot(step, spots[step]) for step in sorted(spots)))
        for key, spots in curves.items()
    ]
    return Chart(name, tuple(sorted(found, key=_by_seed)))


def _group(key: _Key, curves: Mapping[_Key, object]) -> str:
    if key.arm is None:
        return key.source
    is_alone = sum(key[:2] == other[:2] for other in curves) == 1
    return key.arm if is_alone else f"{key.arm}, {key.source}"


def _by_seed(curve: Curve) -> tuple[int, str]:
    """Whole numbers by size; the sort keeps the order of groups."""
    seed = curve.seed or ""
    return (int(seed), "") if seed.lstrip("-").isdecimal() and len(seed) < 20 else (0, seed)
