"""The spec's `decision_rule`: what will be compared, how, and against which margin (R-140)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, is_whole, show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.items import item_ids
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.spec import Spec

__all__ = [
    "WEIGHT_EDIT",
    "Band",
    "Criterion",
    "DecisionRule",
    "Multiplicity",
    "ParsedRule",
    "Population",
    "parse_decision_rule",
]

WEIGHT_EDIT = "weight_edit"
"""The `kind` of a rule whose arms report budgets (R-153)."""

MAX_CRITERIA, MAX_WEIGHTS = 16, 50
"""Of one rule, and of one criterion."""
SMALLEST_ALPHA = 1e-100
"""Far below any use; above it every interval has finite ends."""

_RULE_FIELDS = frozenset(
    {
        "version",
        "estimand",
        "unit",
        "seeds",
        "alpha",
        "method",
        "criteria",
        "multiplicity",
        "population",
        "kind",
        "selection",
    }
)
_CRITERION_FIELDS = frozenset({"id", "metric", "weights", "margin", "bounds", "tie_band", "cluster_by"})
_UNRESOLVED = "R-14C"
_REVISE = "Save a corrected version of the spec; a rule is never read generously."


class Multiplicity(StrEnum):
    """How a rule allows for having several criteria."""

    NONE = "none"
    """Each interval at α: enough for a verdict that needs all criteria to agree."""
    BONFERRONI = "bonferroni"
    """Each at α/K, so that all K intervals hold together."""
    HOLM = "holm"
    """At α/K first; what is settled there leaves the others α/(K − 1), and so on."""


@dataclass(frozen=True)
class Population:
    """The fixed list of items that the evaluated ones are a random subset of."""

    items: tuple[str, ...]
    size: int
    """How many of them are evaluated."""
    sample_seed: int
    """Which of them: the first `size` in the order of `select_ids`."""


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
    cluster_by: Mapping[str, str] | None
    """Item to the group of items it depends on; None where items are independent."""


@dataclass(frozen=True)
class DecisionRule:
    """A rule that can be applied."""

    unit: str
    seeds: tuple[int, ...]
    """The schedule, in ascending order."""
    alpha: float
    method: str
    criteria: tuple[Criterion, ...]
    multiplicity: Multiplicity
    population: Population | None
    """None where the items stand for others like them."""

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
    draft: DecisionRule | None
    """The rule also where nothing but names of arms is wrong: its weights stand under what the spec calls them."""


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
        self._check(rule, "kind", f"{WEIGHT_EDIT}, or none", lambda value: value in (None, WEIGHT_EDIT))
        self._check(rule, "selection", "an object, or none", lambda value: value is None or isinstance(value, Mapping))
        seeds = self._check(rule, "seeds", "a list of different whole numbers", _is_seeds)
        known = tuple(each.value for each in Multiplicity)
        multiplicity = self._check(rule, "multiplicity", f"none or one of {show_names(known)}", _is_multiplicity)
        wanted = "items (different ids), size (1 to their number) and sample_seed, or none"
        self._check(rule, "population", wanted, lambda value: value is None or _population(value) is not None)
        self._check(rule, "criteria", f"1 to {MAX_CRITERIA} criteria", lambda value: _is_count(value, MAX_CRITERIA))
        criteria = [
            self._criterion(as_mapping(entry), f"decision_rule.criteria[{index}]")
            for index, entry in enumerate(as_list(rule.get("criteria"))[:MAX_CRITERIA])
        ]
        self._check_ids(criteria)
        kept = tuple(criterion for criterion in criteria if criterion is not None)
        problems = tuple(self._problems[:MAX_PROBLEMS])
        if self._misread or not (is_text(unit) and is_text(method) and is_number(alpha)):
            return ParsedRule(None, problems, None)
        ascending = tuple(sorted(seed for seed in as_list(seeds) if is_whole(seed)))
        correction = Multiplicity(multiplicity) if is_text(multiplicity) else Multiplicity.NONE
        population = _population(rule.get("population"))
        draft = DecisionRule(unit, ascending, alpha, method, kept, correction, population)
        return ParsedRule(None if problems else draft, problems, draft)

    @property
    def _misread(self) -> int:
        """Problems besides names that no arm has."""
        return sum(problem.rule != _UNRESOLVED for problem in self._problems)

    def _criterion(self, entry: Mapping[str, JsonValue], path: str) -> Criterion | None:
        before = self._misread
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
        clusters = entry.get("cluster_by")
        self._check(entry, "cluster_by", "item ids with the names of their clusters, or none", _is_clusters, path)
        weights = self._resolve(as_mapping(entry.get("weights")), f"{path}.weights")
        bounds = _band(entry.get("bounds"))
        if self._misread > before or bounds is None:
            return None
        if not (is_text(name) and is_text(metric) and is_number(margin)):
            return None
        named = {item: str(cluster) for item, cluster in as_mapping(clusters).items()}
        return Criterion(name, metric, weights, margin, bounds, _band(tie_band), named or None)

    def _resolve(self, weights: Mapping[str, JsonValue], path: str) -> dict[str, int | float]:
        """Weights by arm name: a key names an arm, or the role of exactly one arm (R-14C)."""
        resolved: dict[str, int | float] = {}
        for key, weight in islice(weights.items(), MAX_WEIGHTS):
            arms = self._spec.arms_called(key)
            if len(arms) != 1 or arms[0] in resolved:
                expected = (
                    f"an arm ({show_names(self._spec.arm_names) or 'the spec names none'}) or the role of one arm"
                )
                action = f"Give exactly one arm of the spec the role {show(key)}, or weigh arms by name."
                self._problems.append(Problem(_UNRESOLVED, f"{path}.{key}", expected, _arms_found(arms), action))
                arms = (key,)
            if is_number(weight):
                resolved[arms[0]] = weight
        return resolved

    def _check_ids(self, criteria: list[Criterion | None]) -> None:
        ids = [criterion.id for criterion in criteria if criterion is not None]
        if len(set(ids)) < len(ids):
            path, expected = "decision_rule.criteria", "criteria with different ids"
            self._problems.append(Problem("R-140", path, expected, "an id that stands twice", _REVISE))

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
    return is_number(value) and SMALLEST_ALPHA <= value < 1


def _is_seeds(value: JsonValue) -> bool:
    seeds = as_list(value)
    whole = [seed for seed in seeds if is_whole(seed)]
    return 0 < len(whole) == len(seeds) == len(set(whole))


def _is_weights(value: JsonValue) -> bool:
    weights = list(as_mapping(value).values())
    numbers = [weight for weight in weights if is_number(weight)]
    return len(numbers) == len(weights) <= MAX_WEIGHTS and any(weight != 0 for weight in numbers)


def _is_count(value: JsonValue, most: int) -> bool:
    return 0 < len(as_list(value)) <= most


def _is_multiplicity(value: JsonValue) -> bool:
    return value is None or (isinstance(value, str) and value in set(Multiplicity))


def _is_clusters(value: JsonValue) -> bool:
    names = as_mapping(value)
    return value is None or (bool(names) and all(map(is_text, names.values())))


def _population(value: JsonValue) -> Population | None:
    fields = as_mapping(value)
    items, size, seed = item_ids(fields.get("items")), fields.get("size"), fields.get("sample_seed")
    if items is None or not is_whole(size) or not is_whole(seed) or not 0 < size <= len(items):
        return None
    return Population(items, size, seed)


def _band(value: JsonValue) -> Band | None:
    ends = as_list(value)
    if len(ends) != 2:
        return None
    low, high = ends
    return Band(low, high) if is_number(low) and is_number(high) and low < high else None


def _arms_found(arms: Sequence[str]) -> str:
    return f"{len(arms)} arms with that role" if len(arms) > 1 else "an arm weighed twice" if arms else "neither"
