"""What a spec plans to select, and what `decision.selection` and `decision.budgets` report of it (contract §13)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.decision_rule import WEIGHT_EDIT
from research_exchange.documents.fields import as_list, as_mapping, is_number, is_whole, show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.items import Manifest, item_ids, manifest_of
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Spec

__all__ = [
    "RANDOM_CONTROL",
    "REVISE",
    "Budget",
    "ItemList",
    "Selection",
    "SelectionPlan",
    "TunedRate",
    "not_disjoint",
    "parse_selection",
    "parse_selection_plan",
]

RANDOM_CONTROL = "random"
"""The arm, by name or role, that edits as much as the selected one, and at random (R-153)."""

REVISE = "Save a corrected version of the spec."


@dataclass(frozen=True)
class ItemList:
    """One of the two disjoint lists of a selection: explicit ids, or a manifest that the run retains."""

    path: str
    ids: tuple[str, ...] | None
    manifest: Manifest | None


@dataclass(frozen=True)
class SelectionPlan:
    """The spec's side."""

    is_adaptive: bool
    """Something is selected on some items and confirmed on others (R-150)."""
    is_weight_edit: bool
    grids: Mapping[str, tuple[int | float, ...]]
    """Arm to the learning rates it is tuned over, in ascending order (R-152)."""
    selection: ItemList | None
    confirmation: ItemList | None
    control: str | None
    """The random control of a weight edit."""
    gaps: tuple[Problem, ...]
    """What keeps the plan from being applied."""


@dataclass(frozen=True)
class TunedRate:
    """The learning rate an arm ended up with."""

    grid: tuple[int | float, ...]
    """As reported, in ascending order."""
    selected: int | float


@dataclass(frozen=True)
class Budget:
    """What an arm of a weight edit spent."""

    values_touched: int
    proposals: int

    def covers(self, other: "Budget") -> bool:
        """Whether it is at least as large in both."""
        return self.values_touched >= other.values_touched and self.proposals >= other.proposals


@dataclass(frozen=True)
class Selection:
    """The runner's side; what is malformed is absent here and named by the rule that asks for it."""

    frozen: JsonValue
    """`frozen_before_confirmation`, as it stands."""
    rates: Mapping[str, TunedRate]
    budgets: Mapping[str, Budget]


def parse_selection_plan(spec: Spec) -> SelectionPlan:
    """Reads a spec's plan from `decision_rule` and `arms[].lr_grid`. Never raises."""
    gaps: list[Problem] = []
    rule = spec.section("decision_rule")
    is_adaptive = spec.features.get("adaptive_selection") is True or rule.get("selection") is not None
    selection = confirmation = None
    if is_adaptive:
        selection, confirmation = _lists(rule.get("selection"), gaps)
    grids = _grids(spec, gaps)
    is_weight_edit = rule.get("kind") == WEIGHT_EDIT
    control = _control(spec, gaps) if is_weight_edit else None
    return SelectionPlan(is_adaptive, is_weight_edit, grids, selection, confirmation, control, tuple(gaps))


def parse_selection(decision: JsonValue, arms: Collection[str]) -> Selection:
    """Reads what a `decision` part reports of these arms. Never raises."""
    selection = as_mapping(as_mapping(decision).get("selection"))
    learning_rates, spent = as_mapping(selection.get("learning_rates")), as_mapping(as_mapping(decision).get("budgets"))
    rates = {arm: _rate(learning_rates.get(arm)) for arm in arms}
    budgets = {arm: _budget(spent.get(arm)) for arm in arms}
    return Selection(
        frozen=selection.get("frozen_before_confirmation"),
        rates={arm: rate for arm, rate in rates.items() if rate is not None},
        budgets={arm: budget for arm, budget in budgets.items() if budget is not None},
    )


def _lists(plan: JsonValue, gaps: list[Problem]) -> tuple[ItemList | None, ItemList | None]:
    fields = as_mapping(plan)
    chosen, confirmed = (_item_list(fields, name, gaps) for name in ("selection_items", "confirmation_items"))
    if chosen is not None and confirmed is not None and chosen.ids is not None and confirmed.ids is not None:
        shared = sorted(set(chosen.ids) & set(confirmed.ids))
        if shared:
            gaps.append(not_disjoint(shared))
    return chosen, confirmed


def not_disjoint(shared: Sequence[str]) -> Problem:
    """The problem of items that stand in both lists."""
    path, expected = "decision_rule.selection", "selection and confirmation items that have none in common"
    return Problem("R-151", path, expected, f"{show_names(shared)} in both", REVISE)


def _item_list(plan: Mapping[str, JsonValue], name: str, gaps: list[Problem]) -> ItemList | None:
    path = f"decision_rule.selection.{name}"
    fields = as_mapping(plan.get(name))
    ids, manifest = item_ids(fields.get("ids")), manifest_of(fields)
    has_manifest = "manifest_ref" in fields or "manifest_sha256" in fields
    if (ids is None) == (manifest is None) or ("ids" in fields and has_manifest):
        expected = "either ids, different and not empty, or manifest_ref and manifest_sha256"
        gaps.append(Problem("R-151", path, expected, show(plan.get(name)), REVISE))
        return None
    return ItemList(path, ids, manifest)


def _grids(spec: Spec, gaps: list[Problem]) -> dict[str, tuple[int | float, ...]]:
    grids = {}
    for arm in spec.arms:
        if arm.value.get("lr_grid") is None:
            continue
        grid = _ascending(arm.value["lr_grid"])
        if grid is None:
            path, expected = f"arms[{show(arm.name)}].lr_grid", "different learning rates above 0"
            gaps.append(Problem("R-152", path, expected, show(arm.value["lr_grid"]), REVISE))
        else:
            grids[arm.name] = grid
    return grids


def _control(spec: Spec, gaps: list[Problem]) -> str | None:
    """The arm called `random`; the same words as in the weights of a rule (R-14C)."""
    found = spec.arms_called(RANDOM_CONTROL)
    if len(found) == 1:
        return found[0]
    expected = f"one arm with the name or role {show(RANDOM_CONTROL)}, the random control"
    gaps.append(Problem("R-153", "arms", expected, f"{len(found)} of them", REVISE))
    return None


def _rate(entry: JsonValue) -> TunedRate | None:
    fields = as_mapping(entry)
    grid, selected = _ascending(fields.get("grid")), fields.get("selected")
    return TunedRate(grid, selected) if grid is not None and is_number(selected) else None


def _ascending(grid: JsonValue) -> tuple[int | float, ...] | None:
    entries = as_list(grid)
    rates = [rate for rate in entries if is_number(rate) and rate > 0]
    return tuple(sorted(rates)) if rates and len(rates) == len(entries) == len(set(rates)) else None


def _budget(entry: JsonValue) -> Budget | None:
    fields = as_mapping(entry)
    touched, proposals = fields.get("values_touched"), fields.get("proposals")
    if is_whole(touched) and is_whole(proposals) and touched >= 0 and proposals >= 0:
        return Budget(touched, proposals)
    return None
