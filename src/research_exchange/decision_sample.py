"""From a complete grid to what a method computes on: contrasts, and what the rule says about their units."""

from collections import Counter
from collections.abc import Mapping

from research_exchange.decision_grid import Findings, Grid
from research_exchange.documents.decision_rule import Criterion, DecisionRule
from research_exchange.documents.fields import show
from research_exchange.statistics import (
    METHODS,
    SEEDS,
    PairTable,
    Sample,
    Shape,
    contrast_range,
    contrasts,
    pair_table,
    seed_contrasts,
    select_ids,
)

__all__ = ["take_samples"]


def take_samples(rule: DecisionRule, grids: Mapping[str, Grid], findings: Findings) -> list[Sample]:
    """One sample per criterion, in their order; what is wrong with the rows behind one goes into `findings`.

    Args:
        rule: A rule without problems.
        grids: By metric; a criterion whose metric has no grid gets no sample.
    """
    _check_population(rule, grids, findings)
    return [
        _sample(rule, criterion, grids[criterion.metric], findings)
        for criterion in rule.criteria
        if criterion.metric in grids
    ]


def _sample(rule: DecisionRule, criterion: Criterion, grid: Grid, findings: Findings) -> Sample:
    columns = {arm: [grid.column(arm, seed) for seed in rule.seeds] for arm in criterion.weights}
    by_seed = rule.unit == SEEDS
    sample = Sample(
        contrasts=(seed_contrasts if by_seed else contrasts)(criterion.weights, columns),
        reach=contrast_range(criterion.weights, criterion.bounds.low, criterion.bounds.high),
        names=tuple(map(str, rule.seeds)) if by_seed else grid.items,
        table=_table(criterion, grid, rule) if METHODS[rule.method].shape is Shape.PAIR else None,
        clusters=_clusters(rule, criterion, grid, findings),
        population=None if rule.population is None else len(rule.population.items),
    )
    _check_method(rule, criterion, sample, findings)
    return sample


def _clusters(rule: DecisionRule, criterion: Criterion, grid: Grid, findings: Findings) -> tuple[int, ...]:
    """The sizes of the clusters that the grid's items fall into."""
    if criterion.cluster_by is None:
        return ()
    missing = next((item for item in grid.items if item not in criterion.cluster_by), None)
    if missing is not None:
        path = f"decision_rule.criteria[{rule.criteria.index(criterion)}].cluster_by"
        action = "Score the items that the spec knows the clusters of."
        findings.add("R-145", path, "the cluster of every item", f"none for {show(missing)}", action)
        return ()
    return tuple(sorted(Counter(criterion.cluster_by[item] for item in grid.items).values()))


def _check_population(rule: DecisionRule, grids: Mapping[str, Grid], findings: Findings) -> None:
    population = rule.population
    if population is None:
        return
    drawn = set(select_ids(population.items, population.size, population.sample_seed))
    for grid in grids.values():
        if drawn != set(grid.items):
            strange = next((item for item in grid.items if item not in drawn), None)
            expected = f"the {population.size} items that sample_seed {population.sample_seed} draws"
            found = f"{len(grid.items)} of them" if strange is None else f"{show(strange)}, which is not among them"
            action = "Evaluate exactly the items that the spec's population and seed select."
            findings.contradicted = True
            findings.add("R-145", "decision_rule.population", expected, found, action)


def _table(criterion: Criterion, grid: Grid, rule: DecisionRule) -> PairTable | None:
    (seed,) = rule.seeds
    bounds, weights = criterion.bounds, criterion.weights
    first, second = max(weights, key=weights.__getitem__), min(weights, key=weights.__getitem__)
    return pair_table(grid.column(first, seed), grid.column(second, seed), bounds.low, bounds.high)


def _check_method(rule: DecisionRule, criterion: Criterion, sample: Sample, findings: Findings) -> None:
    """What a method asks of the rows themselves."""
    method, path = METHODS[rule.method], "decision_rule.method"
    ends = {sample.reach.low, sample.reach.high}
    graded = (method.shape is Shape.PAIR and sample.table is None) or (
        method.shape is Shape.SINGLE and not ends.issuperset(sample.contrasts)
    )
    if graded:
        expected = f"a method for values between the bounds of {show(criterion.metric)}, which these rows have"
        action = "Save a spec whose method fits the metric; the rows stay what they are."
        findings.add("R-140", path, expected, f"{show(rule.method)}, for passed and failed items", action)
    if sample.n < method.least:
        findings.add("R-140", path, f"a method for {sample.n} units", f"{show(rule.method)}, from {method.least} on")
