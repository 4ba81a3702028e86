"""What a run's page shows, put into words and shapes; the templates only place it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from research_exchange.decision import CriterionResult, CriterionState
from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.gates import Applicability, GateResult
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import MetricHistory, RunState
from research_exchange.judgment import Judgment
from research_exchange.server import RunView
from research_exchange.server.views import recorded_judgment
from research_exchange.store import OutcomeRecord
from research_exchange.web.drawing import IntervalFigure, curve_points, interval_figure

MAX_CURVE_POINTS = 300
MAX_SHOWN_REVISIONS = 12
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Banner:
    """The outcome in large letters."""

    tone: str
    """A class of the stylesheet: supported, refuted, withheld, inconclusive, running."""
    label: str
    headline: str
    explanation: str
    recorded: Mapping[str, JsonValue] | None
    """The judgment on record; None before there is one."""
    objections: tuple[str, ...] = ()
    """What stands against a definitive verdict besides what `explanation` says."""


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
class CriterionPanel:
    result: CriterionResult
    contrast: str
    settled: str
    figure: IntervalFigure | None


@dataclass(frozen=True)
class RecordedRow:
    number: int
    recorded_at: datetime
    cause: str
    validator_version: str
    verdict: str
    withheld: bool


@dataclass(frozen=True)
class RunPage:
    view: RunView
    judgment: Judgment
    """Of this moment."""
    banner: Banner
    contradicted: bool
    """What the Exchange holds now leads to another verdict than the one on record."""
    gates: tuple[GateResult, ...]
    """Those that apply first."""
    criteria: tuple[CriterionPanel, ...]
    metrics: tuple[MetricRow, ...]
    arms: Mapping[str, tuple[MetricRow, ...]]
    lost: Mapping[str, str]
    """Files whose stored bytes are gone or changed, each with what is wrong (R-16C)."""
    record: tuple[RecordedRow, ...]
    """Every outcome on record, oldest first."""


def run_page(view: RunView) -> RunPage:
    judgment = view.judge()
    recorded = view.recorded
    contradicted = recorded is not None and recorded["recorded_verdict"] != judgment.recorded_verdict
    return RunPage(
        view=view,
        judgment=judgment,
        banner=_waiting(view.state) if recorded is None else _banner(recorded, contradicted=contradicted),
        contradicted=contradicted,
        gates=tuple(sorted(judgment.gates, key=lambda gate: gate.applicability is Applicability.NOT_APPLICABLE)),
        criteria=tuple(map(_criterion, judgment.decision.criteria)) if judgment.decision else (),
        metrics=_rows(view.state.metrics),
        arms=_arms(view),
        lost=_lost(view),
        record=tuple(map(_recorded, view.outcomes)),
    )


def _lost(view: RunView) -> dict[str, str]:
    lost = {}
    for file in view.files:
        try:
            file.read()
        except EvidenceLost as error:
            lost[file.name] = str(error)
    return lost


def _recorded(outcome: OutcomeRecord) -> RecordedRow:
    judged = recorded_judgment(outcome)
    return RecordedRow(
        number=outcome.number,
        recorded_at=outcome.recorded_at,
        cause=outcome.cause,
        validator_version=outcome.validator_version,
        verdict=str(judged["recorded_verdict"]),
        withheld=bool(judged["withheld"]),
    )


def _waiting(state: RunState) -> Banner:
    if not state.last_update:
        return Banner("running", "No verdict yet", "Not started", "Nothing has been posted yet.", None)
    updates = "1 update" if state.last_update == 1 else f"{state.last_update} updates"
    text = f"{updates} so far. A verdict is recorded with the final one."
    return Banner("running", "No verdict yet", "Running", text, None)


def _banner(recorded: Mapping[str, JsonValue], *, contradicted: bool) -> Banner:
    verdict, withheld = str(recorded["recorded_verdict"]), recorded["withheld"]
    tone, label = verdict, "Recorded by the Exchange"
    if contradicted:
        tone, label = "contradicted", "Recorded by the Exchange, but no longer borne out"
    elif withheld:
        tone, label = "withheld", "Recorded by the Exchange, which withholds the reported verdict"
    objections = [str(as_mapping(objection).get("text")) for objection in as_list(recorded["withheld_because"])]
    return Banner(
        tone=tone,
        label=label,
        headline=verdict.capitalize(),
        explanation=str(recorded["explanation"]),
        recorded=recorded,
        objections=tuple(text for text in objections if text != recorded["explanation"]),
    )


def _criterion(result: CriterionResult) -> CriterionPanel:
    settled = {
        CriterionState.PASS: "The whole interval lies above the margin: the criterion is met.",
        CriterionState.FAIL: "The whole interval lies below the margin: the criterion is not met.",
        CriterionState.TIE: "The whole interval lies inside the tie band.",
        CriterionState.UNSETTLED: "The interval reaches over the margin: it settles nothing.",
    }
    figure = interval_figure(result.effect, result.lower, result.upper, result.margin)
    return CriterionPanel(result, contrast_text(result.weights), settled[result.state], figure)


def contrast_text(weights: Mapping[str, int | float]) -> str:
    """`trained − untrained`, or with factors where they are not 1."""
    terms: list[str] = []
    for arm, weight in weights.items():
        sign = _MINUS if weight < 0 else "+"
        factor = "" if abs(weight) == 1 else f"{number(abs(weight))} × "
        terms.append(f"{sign} {factor}{arm}" if terms or weight < 0 else f"{factor}{arm}")
    return " ".join(terms)


def _arms(view: RunView) -> dict[str, tuple[MetricRow, ...]]:
    """Every arm that the spec names or the runner reported, with its metrics."""
    names = dict.fromkeys((*view.spec.arm_names, *view.state.arms, *view.state.completed_arms))
    return {name: _rows(view.state.arms.get(name, {})) for name in names}


def _rows(metrics: Mapping[str, MetricHistory]) -> tuple[MetricRow, ...]:
    return tuple(_row(name, history) for name, history in metrics.items())


def _row(name: str, history: MetricHistory) -> MetricRow:
    values = [float(entry.value) for entry in history.values]
    earlier = history.values[-1 - MAX_SHOWN_REVISIONS : -1]
    return MetricRow(
        name=name,
        latest=history.latest.value,
        update=history.latest.update,
        curve=curve_points(_thinned(values)),
        revisions=tuple((entry.value, entry.update) for entry in reversed(earlier)),
        count=len(values),
    )


def _thinned(values: list[float]) -> list[float]:
    """Evenly spaced ones of a long history, its last among them."""
    if len(values) <= MAX_CURVE_POINTS:
        return values
    last = len(values) - 1
    return [values[round(n * last / (MAX_CURVE_POINTS - 1))] for n in range(MAX_CURVE_POINTS)]


def number(value: float) -> str:
    """Four significant digits, whole numbers in full up to a million, a real minus sign."""
    whole = isinstance(value, int) or value.is_integer()
    text = f"{value:,.0f}" if whole and abs(value) < 1e6 else f"{value:.4g}"
    return text.replace("-", _MINUS)


def signed(value: float) -> str:
    """A difference: with its sign, to four decimals where it has any."""
    return f"{value:+.4g}".replace("-", _MINUS)


def size(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    if count < 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f} KiB"
    return f"{count / 1024 / 1024:.1f} MiB"


def clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def words(name: str) -> str:
    """A name of the contract as words: `activation_gate` reads as "Activation gate"."""
    return name.replace("_", " ").capitalize()


def value_text(value: JsonValue) -> str:
    """Any JSON value in one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def document(value: JsonValue) -> str:
    """A part of a spec as it would be written, two spaces deep."""
    return json.dumps(value, indent=2, ensure_ascii=False)
