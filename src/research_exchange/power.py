"""The power card: what a spec's decision rule can and cannot say, before anything runs (R-037).

Most rules that never come out do so for want of items; this page of numbers shows it to the author in time.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from research_exchange.decision_plan import rule_problems
from research_exchange.documents.decision_rule import Criterion, DecisionRule, Multiplicity, parse_decision_rule
from research_exchange.documents.fields import as_mapping, is_whole
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_ROWS
from research_exchange.documents.plain import plain
from research_exchange.documents.spec import Spec
from research_exchange.statistics import METHODS, SEEDS, contrast_range, half_width, paired_hoeffding, sample_size
from research_exchange.statistics.outlook import Outlook, lowest
from research_exchange.statistics.special import student_quantile

__all__ = ["Chance", "CriterionPower", "PowerCard", "power_card"]

DISCORDANCE = 0.16
"""Share of items that exactly one of two arms gets right, where a reader says nothing else."""
SMALLEST_SHARE = 1e-6
"""Of a contrast's range: a smaller margin takes more items than there are."""
MOST_ORDERED = 2_000
"""Items up to which thresholds of order-dependent methods are searched for: each step replays every bet."""


@dataclass(frozen=True)
class Chance:
    """What a true effect makes likely."""

    effect: float
    supported: float | None
    """Probability that the criterion passes; None where it is not known."""
    refuted: float | None


@dataclass(frozen=True)
class CriterionPower:
    """What one criterion can say."""

    id: str
    metric: str
    n: int | None
    """Units planned: items, or training seeds."""
    alpha: float
    margin: int | float
    range: tuple[float, float]
    """What the contrast can be."""
    half_width: float | None
    """Of the interval at equality."""
    effect_to_support: float | None
    """The smallest mean contrast that passes."""
    effect_to_refute: float | None
    """The largest that fails."""
    net_wins_to_support: int | None
    """Items won minus items lost; for a single arm, items passed. None for other contrasts."""
    net_wins_to_refute: int | None
    n_for_margin: int | None
    """The fewest items whose half-width is not above the margin's size: what it takes to settle a tie of the arms."""
    can_support: bool | None
    """Whether any rows at all pass; None where n is unknown."""
    can_refute: bool | None
    can_tie: bool | None
    """Whether an interval fits into the tie band; None without a band."""
    chances: tuple[Chance, ...]


@dataclass(frozen=True)
class PowerCard:
    """All criteria of a rule, and the rule as a whole."""

    method: str | None
    unit: str | None
    alpha: float | None
    multiplicity: Multiplicity | None
    n: int | None
    n_from: str | None
    """Where n comes from: a path of the spec, or `given`."""
    assumed_discordance: float
    can_support: bool | None
    """Whether the rule can come out supported at all; with `can_refute`, whether it can be wrong (R-037)."""
    can_refute: bool | None
    criteria: tuple[CriterionPower, ...]
    problems: tuple[Problem, ...]
    """What is wrong with the rule; names of arms alone keep nothing from being computed here (R-14C)."""
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, JsonValue]:
        return dict(as_mapping(plain(self)))


def power_card(spec: Spec, *, n: int | None = None, discordance: float = DISCORDANCE) -> PowerCard:
    """The card of a spec; for one without a usable rule, a card that says why. Never raises on what a spec contains.

    Args:
        n: Units planned; by default what the spec says.
        discordance: Assumed share of items that the arms do not both pass or both fail, in (0, 1].
    """
    parsed = parse_decision_rule(spec)
    if parsed.draft is None:
        return _without_rule(spec, n, discordance, parsed.problems)
    planned, source = _planned(spec, parsed.draft, n)
    hindrances = rule_problems(parsed.draft) or _size_problems(parsed.draft, planned, source)
    return _card(parsed.draft, planned, source, discordance, hindrances, parsed.problems)


def _sharper(rule: DecisionRule, n: int | None, discordance: float) -> Iterator[str]:
    """What the exact method would take where items are passed or failed, beside a bound that looks at no variance."""
    other = replace(rule, method="paired_exact_discordant")
    if n is None or METHODS[rule.method].interval is not paired_hoeffding or rule_problems(other):
        return
    for criterion in rule.criteria:
        outlook = _outlook(other, criterion, n, discordance)
        above, below = outlook.score_above(criterion.margin), outlook.score_below(criterion.margin)
        if above is not None and below is not None:
            takes = f"{criterion.id} from {above:+d} net wins on and refute it up to {below:+d}"
            yield f"Where items are passed or failed, {other.method} would support {takes}."


def _without_rule(spec: Spec, n: int | None, discordance: float, problems: tuple[Problem, ...]) -> PowerCard:
    notes: tuple[str, ...] = ()
    if spec.value.get("decision_rule") is None:
        action = "Add a decision_rule: only then can a verdict be recomputed."
        problems = (Problem("R-14B", "decision_rule", "a rule to compute with", "none", action),)
        n = _evaluated(spec) if n is None else n
        if n is not None and n > 0:
            h = half_width(n, 2, 0.05)
            text = f"On {n} items, paired_hoeffding would know a difference of two accuracies within ±{h:.4f}"
            notes = (f"{text} (95 %); whatever turns on less than that cannot be settled by it.",)
    return PowerCard(None, None, None, None, n, None, discordance, None, None, (), problems, notes)


def _card(
    rule: DecisionRule,
    n: int | None,
    source: str | None,
    discordance: float,
    hindrances: tuple[Problem, ...],
    others: tuple[Problem, ...],
) -> PowerCard:
    criteria = () if hindrances else tuple(_criterion(rule, each, n, discordance) for each in rule.criteria)
    return PowerCard(
        method=rule.method,
        unit=rule.unit,
        alpha=rule.alpha,
        multiplicity=rule.multiplicity,
        n=n,
        n_from=source,
        assumed_discordance=discordance,
        can_support=_together(
            rule, [each.can_support for each in criteria], [each.effect_to_support for each in criteria], 1
        ),
        can_refute=_together(
            rule, [each.can_refute for each in criteria], [each.effect_to_refute for each in criteria], -1
        ),
        criteria=criteria,
        problems=hindrances + others,
        notes=() if hindrances else (*_notes(rule, n), *_sharper(rule, n, discordance)),
    )


def _criterion(rule: DecisionRule, criterion: Criterion, n: int | None, discordance: float) -> CriterionPower:
    outlook = _outlook(rule, criterion, n or 1, discordance)
    known = n is not None and n >= outlook.method.least
    searched = known and rule.unit != SEEDS and (not outlook.method.ordered or outlook.n <= MOST_ORDERED)
    margin = criterion.margin
    above, below = (outlook.score_above(margin), outlook.score_below(margin)) if searched else (None, None)
    counted = outlook.single or _is_pair(criterion)
    h = _half_width(outlook) if searched else None
    return CriterionPower(
        id=criterion.id,
        metric=criterion.metric,
        n=n,
        alpha=outlook.alpha,
        margin=margin,
        range=(outlook.reach.low, outlook.reach.high),
        half_width=h,
        effect_to_support=None if above is None else outlook.effect(above),
        effect_to_refute=None if below is None else outlook.effect(below),
        net_wins_to_support=above if counted else None,
        net_wins_to_refute=below if counted else None,
        n_for_margin=_n_for_margin(outlook, abs(margin)) if rule.unit != SEEDS else None,
        can_support=outlook.interval(outlook.n).lower > margin if known else None,
        can_refute=outlook.interval(outlook.lowest).upper < margin if known else None,
        can_tie=_can_tie(criterion, h),
        chances=tuple(_chances(outlook, margin, above, below)) if searched else (),
    )


def _outlook(rule: DecisionRule, criterion: Criterion, n: int, discordance: float) -> Outlook:
    method = METHODS[rule.method]
    clusters = tuple(sorted(Counter((criterion.cluster_by or {}).values()).values()))
    return Outlook(
        method=method,
        reach=contrast_range(criterion.weights, criterion.bounds.low, criterion.bounds.high),
        alpha=rule.alpha / (1 if rule.multiplicity is Multiplicity.NONE else len(rule.criteria)),
        n=n,
        discordance=discordance,
        single=sum(weight != 0 for weight in criterion.weights.values()) == 1,
        clusters=clusters if sum(clusters) == n else (),
        population=None if rule.population is None else len(rule.population.items),
    )


def _chances(outlook: Outlook, margin: float, above: int | None, below: int | None) -> Iterator[Chance]:
    size = abs(margin)
    for effect in sorted({-size, -size / 2, 0.0, size / 2, size}):
        supported = 0.0 if above is None else outlook.chance(effect, above, at_least=True)
        refuted = 0.0 if below is None else outlook.chance(effect, below, at_least=False)
        if supported is not None and refuted is not None:
            yield Chance(effect, supported, refuted)


def _n_for_margin(outlook: Outlook, margin: float) -> int | None:
    """None for a margin of next to nothing, for clusters, and where it takes more than can be searched."""
    if margin < outlook.reach.width * SMALLEST_SHARE or outlook.clusters:
        return None
    if outlook.method.interval is paired_hoeffding and outlook.population is None:
        return sample_size(margin, outlook.reach.width, outlook.alpha)
    most = MOST_ORDERED if outlook.method.ordered else MAX_ROWS
    return lowest(
        lambda n: _half_width(replace(outlook, n=n)) <= margin,
        outlook.method.least,
        most if outlook.population is None else outlook.population,
    )


def _half_width(outlook: Outlook) -> float:
    """At equality: as many items won as lost, or half of them passed."""
    return outlook.interval(outlook.n // 2 if outlook.single else 0).half_width


def _is_pair(criterion: Criterion) -> bool:
    weights = [weight for weight in criterion.weights.values() if weight != 0]
    return len(weights) == 2 and weights[0] == -weights[1]


def _can_tie(criterion: Criterion, half_width: float | None) -> bool | None:
    band = criterion.tie_band
    if band is None or half_width is None:
        return None
    return band.high - band.low >= 2 * half_width and band.low <= criterion.margin <= band.high


def _together(
    rule: DecisionRule, answers: Sequence[bool | None], effects: Sequence[float | None], direction: int
) -> bool | None:
    """Whether all criteria can come out alike: each by itself, and those that look at one effect from both sides.

    Args:
        answers: Whether each can by itself.
        effects: The effect that each needs, where it is known.
        direction: 1 where an effect has to be at least that, −1 where at most.
    """
    if not answers or None in answers:
        return None
    needs = list(zip(rule.criteria, effects, strict=True))
    for (first, needed), (second, opposed) in combinations(needs, 2):
        factor = _opposite(first, second)
        if factor and needed is not None and opposed is not None and direction * (opposed / factor - needed) < 0:
            return False
    return all(answers)


def _opposite(first: Criterion, second: Criterion) -> float | None:
    """The negative factor that turns the first contrast into the second; None where there is none."""
    if first.metric != second.metric or first.weights.keys() != second.weights.keys():
        return None
    pairs = [(weight, second.weights[arm]) for arm, weight in first.weights.items() if weight or second.weights[arm]]
    factors = {other / weight if weight else 0.0 for weight, other in pairs}
    factor = factors.pop()
    return factor if not factors and factor < 0 else None


def _planned(spec: Spec, rule: DecisionRule, n: int | None) -> tuple[int | None, str | None]:
    if n is not None:
        return n, "given"
    if rule.unit == SEEDS:
        return len(rule.seeds), "decision_rule.seeds"
    if rule.population is not None:
        return rule.population.size, "decision_rule.population.size"
    evaluated = _evaluated(spec)
    return evaluated, None if evaluated is None else "eval.n_examples"


def _evaluated(spec: Spec) -> int | None:
    n = spec.section("eval").get("n_examples")
    return n if is_whole(n) and n > 0 else None


def _size_problems(rule: DecisionRule, n: int | None, source: str | None) -> tuple[Problem, ...]:
    if n is None:
        return ()
    cells = len({arm for criterion in rule.criteria for arm in criterion.weights}) * len(rule.seeds)
    most = MAX_ROWS if rule.unit == SEEDS else MAX_ROWS // cells
    if rule.population is not None:
        most = min(most, len(rule.population.items))
    if 1 <= n <= most:
        return ()
    action = f"Plan for what a decision can be computed from: {MAX_ROWS} rows, one per arm, item and seed."
    return (Problem("R-142", source or "n", f"1 to {most} items", f"{n}", action),)


def _notes(rule: DecisionRule, n: int | None) -> Iterator[str]:
    method = METHODS[rule.method]
    if n is None:
        yield "The spec does not say how many items are evaluated (eval.n_examples), so most numbers are missing."
        return
    if rule.unit == SEEDS:
        if n >= method.least:
            factor = student_quantile(rule.alpha, n - 1) / math.sqrt(n)
            yield f"With {n} training seeds the half-width is {factor:.3f} times the standard deviation between them."
        return
    if method.ordered and n > MOST_ORDERED:
        yield f"{rule.method} depends on the order of items; thresholds are searched for up to {MOST_ORDERED} items."
    if method.interval is not paired_hoeffding:
        yield "The interval depends on the rows; thresholds and probabilities are those at the assumed discordance."
    if rule.multiplicity is Multiplicity.HOLM:
        yield "Holm's first step is shown; criteria that are left over get wider shares of alpha."
    if len(rule.criteria) > 1:
        yield "A verdict needs all criteria to agree; the numbers of each are for it alone."
