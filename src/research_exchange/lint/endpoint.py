"""What is decided on: a rule that can be applied, to an endpoint that it can judge, over units it may speak about."""

import re
from collections.abc import Iterator

from research_exchange.decision_plan import rule_problems
from research_exchange.documents.decision_rule import parse_decision_rule
from research_exchange.documents.fields import as_list, as_mapping, is_text, is_whole, show
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Spec
from research_exchange.lint.findings import Finding, Level, of_problem, question, warning
from research_exchange.lint.prose import points
from research_exchange.statistics import half_width

__all__ = ["direction", "nonlinear", "one_seed", "rule", "without_rule"]

_RULES = {"R-140": "R-035", "R-14C": "R-036"}
"""From the rule that refuses a decision rule to the rule of lint."""
_LONGEST_READ = 20_000

_IN_A_NAME = re.compile(
    r"\b(peak|best|highest|lowest|maximum|minimum|max|min|median|percentile)\b"
    r"(?! (?:new )?(?:tokens|steps|length|len|seq)\b)"
)
_IN_A_SENTENCE = re.compile(
    r"\b(peak|best (?:minus|of|checkpoint|step|epoch|seed|score|accuracy|value)|max(?:imum)? over|highest|lowest)\b"
)
_NO_LETTERS = re.compile(r"[\W_]+")


def rule(spec: Spec) -> Iterator[Finding]:
    """R-035, R-036: whatever would keep the rule from being applied."""
    if spec.value.get("decision_rule") is None:
        return
    parsed = parse_decision_rule(spec)
    problems = parsed.problems if parsed.rule is None else rule_problems(parsed.rule)
    for problem in problems:
        yield of_problem(problem, Level.ERROR, _RULES)


def without_rule(spec: Spec) -> Iterator[Finding]:
    """R-14B, R-037: a criterion in prose alone."""
    if spec.value.get("decision_rule") is not None:
        return
    text = (
        "There is none, so the Exchange recomputes nothing and the verdict stays the runner's word. Write the "
        "criterion as a rule: arms, weights, margin, bounds, method."
    )
    yield warning("R-14B", "decision_rule", text)
    n = spec.section("eval").get("n_examples")
    amounts = points(_text(spec.value.get("success_criterion")))
    if not is_whole(n) or n < 1 or (amounts and min(amounts) / 100 > half_width(n, 2.0, 0.05)):
        return
    text = (
        f"With {n} items, the difference between two arms in a score from 0 to 1 is known to "
        f"±{half_width(n, 2.0, 0.05):.4f} (paired Hoeffding, 95 %)."
    )
    if amounts:
        text += f" The success criterion speaks of {min(amounts):g} points, which are {min(amounts) / 100:g}."
    yield warning("R-037", "eval.n_examples", f"{text} Take more items, or a method that uses the variance.")


def nonlinear(spec: Spec) -> Iterator[Finding]:
    """R-038: a maximum, a peak, a best of several is no mean over items."""
    selection = as_mapping(spec.section("decision_rule").get("selection"))
    if selection and spec.features.get("adaptive_selection") is True:
        return
    found = [(path, word) for path, value in _names(spec) if (word := _word(_IN_A_NAME, value))]
    found += [(path, word) for path, value in _sentences(spec) if (word := _word(_IN_A_SENTENCE, value))]
    for path, word in found:
        text = (
            f"{show(word)} takes an extreme over several evaluations. It is no weighted mean of item scores, so no "
            "decision rule can judge it, and it is biased: noise alone makes a peak. Name the two checkpoints to "
            "compare beforehand, or select on items of their own and confirm on others (decision_rule.selection)."
        )
        yield warning("R-038", path, text)


def one_seed(spec: Spec) -> Iterator[Finding]:
    """R-154: items never stand for training seeds."""
    section = spec.section("decision_rule")
    if len(as_list(section.get("seeds"))) == 1 and section.get("unit") == "fixed_checkpoint_items":
        text = (
            "One training seed: whatever is decided speaks about these checkpoints and says nothing about another "
            "seed. Schedule more seeds, or claim no more than that in the hypothesis."
        )
        yield warning("R-154", "decision_rule.seeds", text)


def direction(spec: Spec) -> Iterator[Finding]:
    """R-087: a held-out loss is better when smaller, and has no natural bounds."""
    if spec.features.get("heldout_loss") is True and spec.value.get("decision_rule") is not None:
        text = (
            "heldout_loss is true, and a criterion reads larger as better. Do the weights of the loss carry the "
            "opposite sign, and can no item's loss lie outside the bounds?"
        )
        yield question("R-087", "decision_rule.criteria", text)


def _names(spec: Spec) -> Iterator[tuple[str, JsonValue]]:
    for name in ("metric", "aggregation"):
        yield f"eval.{name}", spec.section("eval").get(name)
    yield "primary_endpoint", spec.value.get("primary_endpoint")
    for index, entry in enumerate(as_list(spec.section("decision_rule").get("criteria"))):
        yield f"decision_rule.criteria[{index}].metric", as_mapping(entry).get("metric")


def _sentences(spec: Spec) -> Iterator[tuple[str, JsonValue]]:
    yield "decision_rule.estimand", spec.section("decision_rule").get("estimand")
    yield "success_criterion", spec.value.get("success_criterion")


def _word(pattern: re.Pattern[str], value: JsonValue) -> str | None:
    found = pattern.search(_NO_LETTERS.sub(" ", _text(value).lower()))
    return found[0] if found else None


def _text(value: JsonValue) -> str:
    return value[:_LONGEST_READ] if is_text(value) else ""
