"""The histories of a run's metrics: the newest value, its curve, and what stood before it (R-065)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from research_exchange.documents.run_state import MetricHistory, RunState
from research_exchange.documents.spec import Spec
from research_exchange.presentation.drawing import Point, curve_points, thinned

MAX_CURVE_POINTS = 130
"""One for every two units of a curve's width: what lies closer can hardly be told apart."""
MAX_SHOWN_REVISIONS = 12
MAX_SHOWN_METRICS = 60
"""Of the run, and of each arm; the JSON has all."""
MAX_SHOWN_ARMS = 60


@dataclass(frozen=True)
class MetricRow:
    name: str
    latest: float
    update: int
    curve: str
    """Points of an SVG polyline; empty for a metric with a single value."""
    revisions: tuple[tuple[float, int], ...]
    """The most recent values before the latest, newest first, each with its update."""
    count: int


@dataclass(frozen=True)
class MetricTable:
    rows: tuple[MetricRow, ...]
    left_out: int
    """Metrics beyond those that are shown."""


@dataclass(frozen=True)
class ArmRow:
    """An arm that the spec names or the runner reported."""

    name: str
    role: str | None
    is_known: bool
    """The spec has it, or names no arms."""
    completed: int | None
    """The update that first listed it as completed."""
    metrics: MetricTable


def run_metrics(state: RunState) -> MetricTable:
    return _table(state.metrics)


def arm_rows(spec: Spec, state: RunState) -> tuple[ArmRow, ...]:
    names = dict.fromkeys((*spec.arm_names, *state.arms, *state.completed_arms))
    roles = {arm.name: arm.role for arm in spec.arms}
    return tuple(
        ArmRow(name, roles.get(name), name in roles or not roles, state.completed_arms.get(name), _table(metrics))
        for name, metrics in _metrics_of(islice(names, MAX_SHOWN_ARMS), state)
    )


def _metrics_of(names: Iterable[str], state: RunState) -> Iterable[tuple[str, Mapping[str, MetricHistory]]]:
    return ((name, state.arms.get(name, {})) for name in names)


def _table(metrics: Mapping[str, MetricHistory]) -> MetricTable:
    shown = tuple(_row(name, history) for name, history in islice(metrics.items(), MAX_SHOWN_METRICS))
    return MetricTable(shown, len(metrics) - len(shown))


def _row(name: str, history: MetricHistory) -> MetricRow:
    values = [entry.value for entry in history.values]
    drawn = [history.values[place] for place in thinned(values, MAX_CURVE_POINTS)]
    earlier = history.values[-1 - MAX_SHOWN_REVISIONS : -1]
    return MetricRow(
        name=name,
        latest=history.latest.value,
        update=history.latest.update,
        curve=curve_points([Point(entry.update, float(entry.value)) for entry in drawn]),
        revisions=tuple((entry.value, entry.update) for entry in reversed(earlier)),
        count=len(values),
    )
