"""The sections with plots: how the arms learned, and the signals that tell whether they stood on solid ground."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from research_exchange.documents.decision_rule import parse_decision_rule
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.presentation.words import number
from research_exchange.reports.blocks import Block, Bullets, Paragraph, Picture, Section, Table
from research_exchange.reports.curves import Chart, Curve, Curves
from research_exchange.reports.line_chart import line_chart

__all__ = ["plot_sections"]

MAX_STEPS = 25
"""Of the table of single values."""
_LEARNING = ("accuracy", "reward", "reward_mean", "loss")
_SIGNALS: Mapping[str, str] = {
    "reward_std": "Spread of the rewards of a step.",
    "grad_norm": "Norm of the gradient, as the service reports it.",
    "groups_with_signal": "Share of groups that are not rewarded all alike.",
    "zero_advantage_groups": "Share of groups that are rewarded all alike.",
    "largest_logprob_gap": "Largest distance of learner and sampler on a token that was drawn, in nats.",
    "logprob_gap_largest": "Largest distance of learner and sampler on a token that was drawn, in nats.",
    "logprob_gap": "Mean distance of learner and sampler on the tokens that were drawn, in nats.",
    "logprob_gap_mean": "Mean distance of learner and sampler on the tokens that were drawn, in nats.",
    "kl_k1": "Estimate of KL(sampler‖learner), without bias; it may be negative.",
    "kl_k3": "Estimate of KL(sampler‖learner), without bias and never negative.",
    "entropy_estimate": "Entropy of the sampler, estimated from the tokens drawn, in nats.",
    "entropy_lower": "Entropy of the sampler, bounded from below, in nats.",
    "entropy_upper": "Entropy of the sampler, bounded from above, in nats.",
    "head_mass": "Probability of the likeliest tokens together.",
    "head_mass_sampler": "Probability of the sampler’s likeliest tokens together, by the sampler.",
    "head_mass_learner": "Probability of the sampler’s likeliest tokens together, by the learner.",
    "sum_abs_c": "Size of score centering: the sum of |c| over the sampler’s likeliest tokens, mean over tokens.",
    "truncated": "Share of tokens whose importance weight is cut off.",
    "contributors": "Rollouts that a baseline listens to, as many as would weigh the same (Kish); median of a step.",
    "rollouts_with_advantage": "Share of rollouts that are worth anything.",
    "trained_tokens": "Tokens with an advantage.",
    "completion_tokens": "Mean length of an answer, in tokens.",
    "completions_cut_off": "Share of answers that reach their limit.",
    "learning_rate": "As the step was taken with.",
    "tokens_per_second": "Of prompts and answers.",
}
"""In the order in which they are shown; whatever else was logged comes after them."""


def plot_sections(spec: Spec, state: RunState, curves: Curves) -> Iterator[Section]:
    """The curves of the endpoint, of rewards and losses first, and then every other number."""
    groups = _groups(spec, curves)
    first = _learning(spec, state)
    learning = _sorted([chart for chart in curves.charts if chart.metric in first], first)
    others = _sorted([chart for chart in curves.charts if chart.metric not in first], [*_SIGNALS])
    names = _file_names([*learning, *others])
    yield Section("curves", "Learning curves", [*_lead(curves)])
    for chart in learning:
        yield _chart(chart, groups, names)
    if others:
        about = "Whether the gradients had something to stand on, step by step, and whatever else was logged."
        yield Section("signals", "Stability signals", [Paragraph(about, "lead")])
        for chart in others:
            yield _chart(chart, groups, names)


def _learning(spec: Spec, state: RunState) -> list[str]:
    """Metrics that tell how well an arm does: the endpoint before all others."""
    rule = parse_decision_rule(spec).rule
    scored = (score.metric for score in state.evaluation.scores)
    return [*dict.fromkeys([*(() if rule is None else rule.metrics), *scored, *_LEARNING])]


def _sorted(charts: list[Chart], order: Sequence[str]) -> list[Chart]:
    return sorted(charts, key=lambda chart: order.index(chart.metric) if chart.metric in order else len(order))


def _lead(curves: Curves) -> Iterator[Block]:
    if not curves.charts:
        yield Paragraph("Nothing was logged step by step.", "note")
    elif any(curve.seed is not None for chart in curves.charts for curve in chart.curves):
        yield Paragraph("A thin line is a seed; a thick one is an arm, the mean over its seeds.", "lead")
    if curves.notes:
        yield Bullets(curves.notes)


def _groups(spec: Spec, curves: Curves) -> list[str]:
    """In the order of the spec's arms, so that an arm looks alike in every chart and every run of the spec."""
    found = dict.fromkeys(curve.group for chart in curves.charts for curve in chart.curves)
    return [*dict.fromkeys([*(arm for arm in spec.arm_names if arm in found), *found])]


def _file_names(charts: Sequence[Chart]) -> dict[str, str]:
    """A plain name for each figure: a metric's own may be anything."""
    found = {}
    for place, chart in enumerate(charts, start=1):
        plain = re.sub(r"[^a-z0-9]+", "-", chart.metric.lower()[:40]).strip("-")
        found[chart.metric] = f"curve-{place:02}-{plain}.svg" if plain else f"curve-{place:02}.svg"
    return found


def _chart(chart: Chart, groups: Sequence[str], names: Mapping[str, str]) -> Section:
    figure = line_chart(chart, groups)
    about = _SIGNALS.get(chart.metric)
    blocks: list[Block] = [Paragraph(about, "lead")] if about else []
    name = names[chart.metric]
    blocks += [Paragraph("These numbers cannot be drawn on one axis.", "note")] if figure is None else []
    blocks += [Picture(name, figure)] if figure else []
    curves = sorted(chart.curves, key=lambda curve: groups.index(curve.group))
    return Section(name.removesuffix(".svg"), chart.metric, [*blocks, _extremes(curves), _values(curves)], level=3)


def _extremes(curves: Sequence[Curve]) -> Table:
    rows = []
    for curve in curves:
        values = [spot.value for spot in curve.spots]
        told = (number(each) for each in (len(values), values[0], values[-1], min(values), max(values)))
        rows.append([curve.group, curve.seed or "", *told])
    head = ("Arm", "Seed", "Steps", "First", "Last", "Lowest", "Highest")
    return Table(head, rows, frozenset(range(2, 7)))


def _values(curves: Sequence[Curve]) -> Table:
    steps = sorted({spot.step for curve in curves for spot in curve.spots})
    every = -(-len(steps) // MAX_STEPS)
    shown = [*islice(steps, 0, None, every)]
    shown += [steps[-1]] if steps[-1] not in shown else []
    found = [dict(curve.spots) for curve in curves]
    rows = [[number(step), *(number(spots[step]) if step in spots else "" for spots in found)] for step in shown]
    title = "Values" if every == 1 else f"Values at {len(shown)} of {len(steps):,} steps; the file has all"
    return Table(["Step", *(curve.name for curve in curves)], rows, frozenset(range(len(curves) + 1)), title, True)
