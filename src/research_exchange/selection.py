"""Selection: what was chosen was frozen before it was confirmed, on other items, and within its grid (contract §13).

A learning rate at the edge of its grid passes here and keeps the verdict inconclusive: a better one may lie beyond
(R-152). The same goes for every arm, because an arm that was tuned less well is no fair opponent.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from research_exchange.documents.decision_rule import parse_decision_rule
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import as_mapping, is_same, show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Applicability, Flag, GateStatus, Problem, Provenance, Reading
from research_exchange.documents.items import read_manifest
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState
from research_exchange.documents.selection import (
    REVISE,
    Budget,
    ItemList,
    Selection,
    SelectionPlan,
    not_disjoint,
    parse_selection,
    parse_selection_plan,
)
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import check_applicability

__all__ = ["EdgeRate", "edge_rates", "plan_problems", "read_selection", "unplanned_flags"]


@dataclass(frozen=True)
class EdgeRate:
    """A selected learning rate that is the lowest or the highest of its grid."""

    arm: str
    selected: int | float


def plan_problems(spec: Spec) -> tuple[Problem, ...]:
    """What keeps a spec's own plan from being applied: item lists, grids, the random control."""
    return parse_selection_plan(spec).gaps


def edge_rates(spec: Spec, state: RunState) -> tuple[EdgeRate, ...]:
    """The arms whose reported learning rate is at the edge of the grid (R-152); a grid of two has only edges."""
    posted, grids = state.latest("decision"), parse_selection_plan(spec).grids
    rates = parse_selection(None if posted is None else posted.value, grids).rates
    return tuple(
        EdgeRate(arm, rates[arm].selected)
        for arm, grid in grids.items()
        if arm in rates and rates[arm].selected in (grid[0], grid[-1])
    )


def unplanned_flags(spec: Spec, state: RunState) -> tuple[Flag, ...]:
    """A selection that the spec knows nothing of: what was chosen on the items that decide is no finding (R-150)."""
    posted = state.latest("decision")
    decision = as_mapping(None if posted is None else posted.value)
    parts = [name for name in ("selection", "budgets") if decision.get(name) is not None]
    if posted is None or not parts or check_applicability(spec.value, "selection")["status"] is Applicability.REQUIRED:
        return ()
    text = f"reports decision.{' and decision.'.join(parts)}, although the spec plans no selection."
    return (Flag("R-150", posted.update, text),)


def read_selection(spec: Spec, state: RunState, shelf: EvidenceShelf, *, evaluators: Collection[str]) -> Reading:
    """Judges the latest `decision.selection` and `decision.budgets` against the spec's plan.

    Args:
        evaluators: Those of the rows that the decision was recomputed from; none where it could not be. Their items
            are the items of the rows, because a decision is made from complete grids alone (R-143, R-145).
    """
    posted = state.latest("decision")
    decision = as_mapping(None if posted is None else posted.value)
    check = _Check(parse_selection_plan(spec), decision, parse_selection(decision, spec.arm_names))
    if check.plan.is_adaptive:
        check.frozen(state)
        check.items(state, shelf, evaluators)
    for arm, grid in check.plan.grids.items():
        check.rate(arm, grid, state)
    check.unplanned_rates()
    if check.plan.is_weight_edit:
        check.budgets(_compared_arms(spec))
    return check.reading(_flags(state) if check.plan.is_adaptive else ())


class _Check:
    """Goes through a report part by part."""

    def __init__(self, plan: SelectionPlan, decision: Mapping[str, JsonValue], report: Selection) -> None:
        self.plan = plan
        self._decision = decision
        self._report = report
        self._findings = Findings()
        self._computed: dict[str, JsonValue] = {}
        self._provenance: dict[str, Provenance] = {}
        self._findings.add_gaps(plan.gaps)

    def reading(self, flags: tuple[Flag, ...]) -> Reading:
        status, problems = self._findings.status, self._findings.problems
        return Reading(status, _REASONS[status], problems, self._computed, self._provenance, flags)

    def frozen(self, state: RunState) -> None:
        """`frozen_before_confirmation` is true, and what was frozen did not change afterwards (R-150)."""
        path, action = "decision.selection.frozen_before_confirmation", "Confirm again on items that selected nothing."
        found = self._report.frozen
        self._computed["frozen_before_confirmation"] = found
        if found is False:
            self._findings.contradict("R-150", path, "true", show(found), action)
        elif found is not True:
            self._findings.miss("R-150", path, "true", show(found), action)
        now = as_mapping(self._decision.get("selection"))
        for posted in state.posted.get("decision", ()):
            earlier = as_mapping(as_mapping(posted.value).get("selection"))
            if earlier.get("frozen_before_confirmation") is True and not is_same(earlier, now):
                expected = f"the selection that update {posted.update} calls frozen"
                self._findings.contradict("R-150", "decision.selection", expected, "another one", action)
                return

    def items(self, state: RunState, shelf: EvidenceShelf, evaluators: Collection[str]) -> None:
        """The rows are the confirmation items, all of them and no others (R-150, R-151)."""
        confirmed, chosen = (self._resolve(items, shelf) for items in (self.plan.confirmation, self.plan.selection))
        if confirmed is None or chosen is None:
            return
        self._computed["confirmation_items"] = len(confirmed)
        self._provenance["confirmation_items"] = Provenance.RECOMPUTED
        shared = sorted(chosen & confirmed)
        if shared and not_disjoint(shared) not in self.plan.gaps:
            self._findings.add_gaps([not_disjoint(shared)])
        for items in self._items_of_rows(state, evaluators):
            self._compare(items, confirmed)

    def rate(self, arm: str, grid: tuple[int | float, ...], state: RunState) -> None:
        """A tuned arm reports its grid, which is the spec's, and one rate of it, for good (R-152)."""
        path, action = f"decision.selection.learning_rates.{arm}", "Report the grid that was run and the rate chosen."
        rate = self._report.rates.get(arm)
        if rate is None:
            self._findings.miss("R-152", path, "grid and selected", show(self._rates().get(arm)), action)
            return
        self._computed[f"learning_rate of {arm}"] = rate.selected
        if rate.grid != grid:
            action = "Tune every arm over the grid of its spec, all of it and no more."
            expected = f"the spec's {_listed(grid)}"
            self._findings.contradict("R-152", f"{path}.grid", expected, _listed(rate.grid), action)
        elif rate.selected not in grid:
            expected = f"a rate of the grid ({_listed(grid)})"
            self._findings.contradict("R-152", f"{path}.selected", expected, show(rate.selected), action)
        for posted in state.posted.get("decision", ()):
            earlier = parse_selection(posted.value, (arm,)).rates.get(arm)
            if earlier is not None and earlier.selected != rate.selected:
                expected, action = (
                    f"{show(earlier.selected)}, as in update {posted.update}",
                    "Keep the rate that was chosen.",
                )
                self._findings.miss("R-152", f"{path}.selected", expected, show(rate.selected), action)
                return

    def unplanned_rates(self) -> None:
        unplanned = [arm for arm in self._rates() if arm not in self.plan.grids]
        if unplanned:
            found = f"{show_names(unplanned)}, for which the spec has no usable grid"
            path, action = "decision.selection.learning_rates", "Give the arm an lr_grid in a new version of the spec."
            self._findings.miss("R-152", path, "the arms that the spec tunes", found, action)

    def budgets(self, arms: Sequence[str]) -> None:
        """Every arm says what it spent, and the random control spent no less than any other (R-153)."""
        reported = as_mapping(self._decision.get("budgets"))
        action = "Report values_touched and proposals of every arm, whole numbers from 0."
        for arm in arms:
            budget = self._report.budgets.get(arm)
            if budget is None:
                path, expected = f"decision.budgets.{arm}", "values_touched and proposals"
                self._findings.miss("R-153", path, expected, show(reported.get(arm)), action)
            else:
                self._computed[f"budget of {arm}"] = asdict(budget)
        control = self.plan.control
        if control is not None and control not in arms:
            expected = f"the random control {show(control)} among the arms of the rule"
            self._findings.miss("R-153", "decision_rule.criteria", expected, "a rule without it", REVISE)
        elif control is not None and control in self._report.budgets:
            for arm in arms:
                self._compare_budget(arm, control, self._report.budgets[control])

    def _compare_budget(self, arm: str, control: str, spent: Budget) -> None:
        budget = self._report.budgets.get(arm)
        if budget is not None and not spent.covers(budget):
            expected = f"at least what {show(arm)} spent ({budget.values_touched} values, {budget.proposals} proposals)"
            found = f"{spent.values_touched} values, {spent.proposals} proposals"
            action = "Run the random control again with the same budget."
            self._findings.miss("R-153", f"decision.budgets.{control}", expected, found, action)

    def _rates(self) -> Mapping[str, JsonValue]:
        return as_mapping(as_mapping(self._decision.get("selection")).get("learning_rates"))

    def _resolve(self, items: ItemList | None, shelf: EvidenceShelf) -> frozenset[str] | None:
        """The ids of a list; its manifest is the retained file that the spec names by its hash."""
        if items is None or items.manifest is None:
            return None if items is None or items.ids is None else frozenset(items.ids)
        file = shelf.find(items.manifest.name)
        action = "Attach the manifest as the spec's author froze it."
        if file is None or file.sha256 != items.manifest.sha256:
            expected = f"the retained file {show(items.manifest.name)} with the hash {items.manifest.sha256}"
            found = "no such file" if file is None else f"the hash {file.sha256}"
            self._findings.miss("R-151", items.path, expected, found, action)
            return None
        try:
            ids = read_manifest(shelf.read(file.name))
        except EvidenceLost as lost:
            self._findings.miss("R-16C", items.path, "the bytes that were accepted", str(lost), action)
            return None
        if ids is None:
            expected, action = (
                "a JSON array of ids, or lines with an item_id",
                "Freeze a manifest in one of these forms.",
            )
            self._findings.miss("R-151", items.path, expected, "a file that is neither", action)
        return None if ids is None else frozenset(ids)

    def _items_of_rows(self, state: RunState, evaluators: Collection[str]) -> list[frozenset[str]]:
        known = state.evaluation.evaluators
        found = [frozenset(known[name].items or ()) for name in sorted(evaluators) if name in known]
        if not found:
            expected, action = "rows that the decision could be recomputed from", "See the problems of the decision."
            self._findings.miss("R-150", "decision", expected, "none", action)
        return found

    def _compare(self, items: frozenset[str], confirmed: frozenset[str]) -> None:
        action = "Decide on the confirmation items, all of them and no others."
        foreign, missing = sorted(items - confirmed), sorted(confirmed - items)
        if foreign:
            found = f"{show_names(foreign)}, which confirm nothing"
            self._findings.contradict("R-150", "decision", "rows of confirmation items alone", found, action)
        if missing:
            expected = f"rows of all {len(confirmed)} confirmation items"
            self._findings.miss("R-151", "decision", expected, f"none of {show_names(missing)}", action)


_REASONS = {
    GateStatus.PASSED: "What was selected was frozen and confirmed as the spec says, as reported.",
    GateStatus.FAILED: "What was selected contradicts the spec's plan.",
    GateStatus.UNVERIFIED: "It cannot be shown that the selection was frozen and confirmed as the spec says.",
}


def _compared_arms(spec: Spec) -> tuple[str, ...]:
    rule = parse_decision_rule(spec).rule
    return tuple(sorted({arm for c in rule.criteria for arm in c.weights})) if rule is not None else spec.arm_names


def _flags(state: RunState) -> tuple[Flag, ...]:
    """A selection that is first stated beside the rows that confirm it, or after them, shows no order (R-150)."""
    for posted in state.posted.get("decision", ()):
        decision = as_mapping(posted.value)
        if decision.get("observations") is not None or decision.get("observations_file") is not None:
            text = "has rows to decide on before a selection is on record; nothing shows that it was frozen."
            return (Flag("R-150", posted.update, text),)
        if decision.get("selection") is not None:
            return ()
    return ()


def _listed(grid: Sequence[int | float]) -> str:
    return ", ".join(show(rate) for rate in grid[:8]) + (", …" if len(grid) > 8 else "")
