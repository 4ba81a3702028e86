"""The spec's `decision_rule`: what will be compared, how, and against which margin (R-140)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, is_whole, show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Spec

__all__ = ["Band", "Criterion", "DecisionRule", "ParsedRule", "parse_decision_rule"]

_RULE_FIELDS = frozenset({"version", "estimand", "unit", "seeds", "alpha", "method", "criteria"})
_CRITERION_FIELDS = frozenset({"id", "metric", "weights", "margin", "bounds", "tie_band"})
_REVISE = "Save a corrected version of the spec; a rule is never read generously."


@dataclass(frozen=True)
class Band:
    """An interval of values, its ends included."""

    low: int | float
    high: int | float


@dataclass(frozen=True)
class Criterion:
    """One comparison of a rule; larger is better."""

    id: str
    metric: str
    weights: Mapping[str, int | float]
    """By arm name, roles resolved (R-14C)."""
    margin: int | float
    bounds: Band
    tie_band: Band | None


@dataclass(frozen=True)
class DecisionRule:
    """A rule that can be applied."""

    unit: str
    seeds: tuple[int, ...]
    """The schedule, in ascending order."""
    alpha: float
    method: str
    criteria: tuple[Criterion, ...]

    def arms_of(self, metric: str) -> tuple[str, ...]:
        """Every arm that a criterion on this metric weighs, in order of name."""
        return tuple(sorted({arm for c in self.criteria if c.metric == metric for arm in c.weights}))

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(criterion.metric for criterion in self.criteria))


@dataclass(frozen=True)
class ParsedRule:
    rule: DecisionRule | None
    """None exactly where there are problems."""
    problems: tuple[Problem, ...]


def parse_decision_rule(spec: Spec) -> ParsedRule:
    """Reads a spec's rule and resolves the roles of its weights. Never raises."""
    return _Reader(spec).read(as_mapping(spec.value.get("decision_rule")))


class _Reader:
    """Reads a rule field by field and collects what is wrong with it."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._problems: list[Problem] = []

    def read(self, rule: Mapping[str, JsonValue]) -> ParsedRule:
        self._refuse_unknown(rule, _RULE_FIELDS, "decision_rule")
        self._check(rule, "version", "1", lambda value: is_whole(value) and value == 1)
        unit = self._check(rule, "unit", "the name of a unit", is_text)
        method = self._check(rule, "method", "the name of a method", is_text)
        alpha = self._check(rule, "alpha", "a number between 0 and 1", _is_alpha)
        seeds = self._check(rule, "seeds", "a list of different whole numbers", _is_seeds)
        criteria = [
            self._criterion(as_mapping(entry), f"decision_rule.criteria[{index}]")
            for index, entry in enumerate(as_list(rule.get("criteria")))
        ]
        self._check_ids(rule, criteria)
        kept = tuple(criterion for criterion in criteria if criterion is not None)
        if self._problems or not (is_text(unit) and is_text(method) and is_number(alpha)):
            return ParsedRule(None, tuple(self._problems))
        ascending = tuple(sorted(seed for seed in as_list(seeds) if is_whole(seed)))
        return ParsedRule(DecisionRule(unit, ascending, alpha, method, kept), ())

    def _criterion(self, entry: Mapping[str, JsonValue], path: str) -> Criterion | None:
        before = len(self._problems)
        self._refuse_unknown(entry, _CRITERION_FIELDS, path)
        name = self._check(entry, "id", "a name", is_text, path)
        metric = self._check(entry, "metric", "the name of a metric", is_text, path)
        margin = self._check(entry, "margin", "a finite number", is_number, path)
        self._check(entry, "weights", "arms with finite weights, one of them not 0", _is_weights, path)
        self._check(entry, "bounds", "[low, high] with low < high", lambda value: _band(value) is not None, path)
        tie_band = entry.get("tie_band")
        self._check(
            entry, "tie_band", "[low, high], or none", lambda value: value is None or _band(value) is not None, path
        )
        weights = self._resolve(as_mapping(entry.get("weights")), f"{path}.weights")
        bounds = _band(entry.get("bounds"))
        if len(self._problems) > before or bounds is None:
            return None
        if not (is_text(name) and is_text(metric) and is_number(margin)):
            return None
        return Criterion(name, metric, weights, margin, bounds, _band(tie_band))

    def _resolve(self, weights: Mapping[str, JsonValue], path: str) -> dict[str, int | float]:
        """Weights by arm name: a key names an arm, or the role of exactly one arm (R-14C)."""
        resolved: dict[str, int | float] = {}
        for key, weight in weights.items():
            arms = [key] if key in self._spec.arm_names else [arm.name for arm in self._spec.arms if arm.role == key]
            if len(arms) != 1 or arms[0] in resolved:
                expected = (
                    f"an arm ({show_names(self._spec.arm_names) or 'the spec names none'}) or the role of one arm"
                )
                action = f"Give exactly one arm of the spec the role {show(key)}, or weigh arms by name."
                self._problems.append(Problem("R-14C", f"{path}.{key}", expected, _arms_found(arms), action))
            elif is_number(weight):
                resolved[arms[0]] = weight
        return resolved

    def _check_ids(self, rule: Mapping[str, JsonValue], criteria: list[Criterion | None]) -> None:
        ids = [criterion.id for criterion in criteria if criterion is not None]
        if not criteria or len(set(ids)) < len(ids):
            found = show(rule.get("criteria")) if not criteria else "an id that stands twice"
            path, expected = "decision_rule.criteria", "criteria with different ids"
            self._problems.append(Problem("R-140", path, expected, found, _REVISE))

    def _check(
        self,
        fields: Mapping[str, JsonValue],
        name: str,
        expected: str,
        holds: Callable[[JsonValue], bool],
        path: str = "decision_rule",
    ) -> JsonValue:
        value = fields.get(name)
        if not holds(value):
            self._problems.append(Problem("R-140", f"{path}.{name}", expected, show(value), _REVISE))
        return value

    def _refuse_unknown(self, fields: Mapping[str, JsonValue], known: frozenset[str], path: str) -> None:
        """An unknown field may change what the rule means, so the rule is not applied without it."""
        for name in fields:
            if name not in known and fields[name] is not None:
                action = "The Exchange cannot apply this field yet; decide without it, or wait for it."
                self._problems.append(Problem("R-140", f"{path}.{name}", "no such field", show(fields[name]), action))


def _is_alpha(value: JsonValue) -> bool:
    """A smaller one than any use has would make ln(2/α) infinite."""
    return is_number(value) and 0 < value < 1 and math.isfinite(2 / value)


def _is_seeds(value: JsonValue) -> bool:
    seeds = as_list(value)
    whole = [seed for seed in seeds if is_whole(seed)]
    return 0 < len(whole) == len(seeds) == len(set(whole))


def _is_weights(value: JsonValue) -> bool:
    weights = list(as_mapping(value).values())
    return all(is_number(weight) for weight in weights) and any(is_number(weight) and weight != 0 for weight in weights)


def _band(value: JsonValue) -> Band | None:
    ends = as_list(value)
    if len(ends) != 2:
        return None
    low, high = ends
    return Band(low, high) if is_number(low) and is_number(high) and low < high else None


def _arms_found(arms: list[str]) -> str:
    return f"{len(arms)} arms with that role" if len(arms) > 1 else "an arm weighed twice" if arms else "neither"
