"""What keeps a decision rule from being computed, however good the rows will be (R-035, R-140)."""

from collections.abc import Iterator

from research_exchange.documents.decision_rule import Criterion, DecisionRule
from research_exchange.documents.fields import show
from research_exchange.documents.gates import Problem
from research_exchange.statistics import METHODS, SEEDS, Method, Shape, contrast_range

__all__ = ["rule_problems"]

_SMALLEST, _LARGEST = 1e-100, 1e100
_SHARPEST = 1e-9
"""Of the largest number in a contrast: a narrower range would drown in rounding."""
_REVISE = "Save a corrected version of the spec."
_SHAPES = {
    Shape.PAIR: "two arms with opposite weights",
    Shape.SINGLE: "one arm",
}


def rule_problems(rule: DecisionRule) -> tuple[Problem, ...]:
    """Names each way in which the rule asks for what its method cannot give; empty for a rule that can be computed."""
    method = METHODS.get(rule.method)
    if method is None:
        return (_problem("method", f"a method of this Exchange ({', '.join(METHODS)})", show(rule.method)),)
    found = [*_rule_level(rule, method)]
    for index, criterion in enumerate(rule.criteria):
        found += _range_problems(criterion, f"criteria[{index}]")
        found += _criterion_level(rule, criterion, method, f"criteria[{index}]")
    return tuple(found)


def _rule_level(rule: DecisionRule, method: Method) -> Iterator[Problem]:
    if rule.unit not in method.units:
        expected = f"a unit that {rule.method} is valid for ({', '.join(method.units)})"
        yield _problem("unit", expected, show(rule.unit))
    elif rule.unit == SEEDS and len(rule.seeds) < method.least:
        yield _problem("seeds", f"at least {method.least} seeds for {rule.method}", f"{len(rule.seeds)}")
    if method.shape is not Shape.ANY and len(rule.seeds) > 1:
        expected = f"one seed, for {rule.method} counts items that are passed or failed"
        yield _problem("seeds", expected, f"{len(rule.seeds)}")
    if rule.population is not None and not method.populations:
        yield _problem("population", f"none: {rule.method} does not use one", show(rule.population.items))


def _criterion_level(rule: DecisionRule, criterion: Criterion, method: Method, path: str) -> Iterator[Problem]:
    if not _fits(criterion, method.shape):
        yield _problem(f"{path}.weights", f"{_SHAPES[method.shape]}, for {rule.method}", show(criterion.weights))
    if criterion.cluster_by is None:
        return
    if not method.clusters:
        expected = f"none: {rule.method} needs independent items"
        yield _problem(f"{path}.cluster_by", expected, show(criterion.cluster_by))
    elif rule.population is not None:
        expected = "clusters or a population, not both"
        yield _problem(f"{path}.cluster_by", expected, show(criterion.cluster_by))


def _fits(criterion: Criterion, shape: Shape) -> bool:
    weights = [weight for weight in criterion.weights.values() if weight != 0]
    if shape is Shape.PAIR:
        return len(weights) == 2 and weights[0] == -weights[1]
    return shape is Shape.ANY or len(weights) == 1


def _range_problems(criterion: Criterion, path: str) -> Iterator[Problem]:
    bounds, weights = criterion.bounds, [abs(float(weight)) for weight in criterion.weights.values()]
    largest = max(abs(float(bounds.low)), abs(float(bounds.high))) * sum(weights)
    if not _SMALLEST <= largest <= _LARGEST:
        expected = f"weights and bounds whose sums lie between {_SMALLEST} and {_LARGEST}"
        yield _problem(path, expected, "larger or smaller ones")
        return
    reach = contrast_range(criterion.weights, bounds.low, bounds.high)
    if reach.width < _SHARPEST * largest:
        yield _problem(f"{path}.bounds", "bounds that are not almost the same", show([bounds.low, bounds.high]))
    elif not reach.low <= criterion.margin <= reach.high:
        expected = f"a margin that the contrast can reach, in [{reach.low}, {reach.high}]"
        yield _problem(f"{path}.margin", expected, show(criterion.margin))


def _problem(path: str, expected: str, found: str) -> Problem:
    return Problem("R-140", f"decision_rule.{path}", expected, found, _REVISE)
