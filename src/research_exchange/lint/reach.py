"""Which verdicts a decision rule can come to with the items it has: proved from bounds and n before anything runs."""

from collections.abc import Iterator

from research_exchange.documents.fields import show
from research_exchange.documents.spec import Spec
from research_exchange.lint.findings import Finding, Level, error, of_problem, question, warning
from research_exchange.power import CriterionPower, power_card

__all__ = ["verdicts"]


def verdicts(spec: Spec) -> Iterator[Finding]:
    """R-035, R-037: what no result could show, what equal arms would leave open, and ties that cannot be declared."""
    card = power_card(spec)
    for problem in card.problems:
        if problem.rule == "R-142":
            yield of_problem(problem, Level.ERROR, {"R-142": "R-035"})
    if card.criteria and card.n is None:
        text = "Found no number of items, so nobody knows whether the rule can come out at all. State it."
        yield warning("R-037", "eval.n_examples", text)
    for index, criterion in enumerate(card.criteria):
        path = f"decision_rule.criteria[{index}]"
        if criterion.can_support is False or criterion.can_refute is False:
            yield _unfalsifiable(f"{path}.margin", criterion)
        elif criterion.half_width is not None:
            yield from _resolution(f"{path}.margin", criterion, criterion.half_width, card.assumed_discordance)
        if criterion.can_tie is False:
            text = (
                f"No interval fits into it: with {criterion.n} items one is {_reach(criterion)} wide to each side, so "
                "a tie can never be declared. Widen the band, or take more items."
            )
            yield warning("R-037", f"{path}.tie_band", text)


def _unfalsifiable(path: str, criterion: CriterionPower) -> Finding:
    """A criterion that no result could support, or that none could refute, tests nothing."""
    never = ["supported"] * (criterion.can_support is False) + ["refuted"] * (criterion.can_refute is False)
    text = (
        f"It can never come out {' or '.join(never)}: no effect that {criterion.n} items can show puts the whole "
        f"interval, {_reach(criterion)} to each side, beyond the margin of {show(criterion.margin)}. Take more items, "
        "a method that uses the variance, or another margin."
    )
    return error("R-035", path, text)


def _resolution(path: str, criterion: CriterionPower, half_width: float, discordance: float) -> Iterator[Finding]:
    """The interval reaches over the margin although the arms are equal."""
    if criterion.margin == 0:
        text = (
            f"With {criterion.n} items only an effect beyond ±{_reach(criterion)} is ever decided{_wins(criterion)}. "
            "Do you expect one as large as that?"
        )
        yield question("R-037", path, text)
    elif half_width >= abs(criterion.margin):
        text = (
            f"Equal arms come out inconclusive: with {criterion.n} items the interval reaches {_reach(criterion)} to "
            "each side, and the margin is "
            f"{show(criterion.margin)}{_wins(criterion)}.{_odds(criterion, discordance)}{_needed(criterion)}"
        )
        yield warning("R-037", path, text)


def _reach(criterion: CriterionPower) -> str:
    return "beyond it" if criterion.half_width is None else f"{criterion.half_width:.4f}"


def _wins(criterion: CriterionPower) -> str:
    """The exact score that settles the criterion, in items won more than lost."""
    support, refute = criterion.net_wins_to_support, criterion.net_wins_to_refute
    if support is None or refute is None:
        return ""
    return f"; {support:+d} net wins or more are needed to support it, {refute:+d} or fewer to refute it"


def _needed(criterion: CriterionPower) -> str:
    if criterion.n_for_margin is None:
        return " Take more items, or a method that uses the variance."
    return f" Take {criterion.n_for_margin} items, or a method that uses the variance."


def _odds(criterion: CriterionPower, discordance: float) -> str:
    supported = next((chance.supported for chance in criterion.chances if chance.effect == 0), None)
    if supported is None:
        return ""
    odds = "less than 0.1 %" if supported < 0.0005 else f"{100 * supported:.1f} %"
    return f" Truly equal arms pass with probability {odds}, if {100 * discordance:g} % of items tell them apart."
