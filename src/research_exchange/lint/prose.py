"""What only sentences say, held against the structured fields, or asked of a reviewer where it cannot be.

Words never establish what a spec declares (R-088): a mismatch is a warning, a suspicion is a question.
"""

import re
from collections.abc import Iterator

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, is_whole, show
from research_exchange.documents.spec import Spec
from research_exchange.lint.findings import Finding, question, warning

__all__ = [
    "batches",
    "claims",
    "confidence",
    "custom_paths",
    "is_open",
    "item_counts",
    "margins",
    "optimizers",
    "points",
    "seed_counts",
    "served_model",
    "step_counts",
    "ties",
    "unsettled",
]

_LONGEST_READ = 20_000
"""Characters of a text that are looked at."""
_SHOWN = 120
"""Characters of a sentence that a finding quotes."""
_NARRATIVE = ("hypothesis", "method", "baseline")

_OPTIMIZERS = re.compile(r"\b(adamw|adam|sgd|\w{0,8}muon|adafactor|rmsprop|adagrad|shampoo|soap)\b", re.IGNORECASE)
_STEPS = re.compile(
    r"(?<![\w.-])((?:every|each|last|first|next|per) )?(\d{1,9})[ -](?:optimizer |training )?steps?\b", re.IGNORECASE
)
_SEEDS = re.compile(r"(?<![\w.-])(\d{1,4}) (?:training )?seeds?\b", re.IGNORECASE)
_ITEMS = re.compile(r"(?<![\d.,])(\d{1,3}(?:,\d{3}){1,3}|\d{1,9}) (?:[\w-]{1,20} ){0,4}(?:items|problems|examples)\b")
_BATCH = re.compile(
    r"(?<![\d.,])(\d{1,6}) (?:[\w-]{1,20} ){0,4}(?:prompts|problems|questions) (?:x |× |with )?(\d{1,6}) "
    r"(?:rollouts?|samples?|answers?|completions?)\b"
)
_POINTS = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,4})?) ?(?:percentage )?(?:%|points?\b|pp\b)")
_DECIMALS = re.compile(r"(?<![\w.])(0?\.\d{1,6})(?![\w%])")
_CONFIDENCE = re.compile(
    r"(?<![\d.])(\d{1,2}(?:\.\d{1,4})?) ?%(?=[^.%]{0,40}(?:bound|interval|confiden|two-sided|one-sided))"
)
_FAILURE = re.compile(r"\b(?:fail|refut|reject|invalid)", re.IGNORECASE)
_SAMENESS = re.compile(
    r"\b(?:differ\w{0,8}|gaps?)\b[^.]{0,60}(?:<|≤|\b(?:less|fewer|smaller) than|\bwithin|\bunder|\bbelow|\bat most)"
    r"|\b(?:no|small|negligible) (?:\w{1,20} )?(?:difference|gap|change)\b|\bwithin (?:\w{1,20} )?noise\b",
    re.IGNORECASE,
)
_UNSETTLED = re.compile(
    r"\b(?:assum(?:e|ed|ption|ptions)|unresolved|undecided|pending|placeholder|TBD|TODO|not yet"
    r"|(?:must|to) be (?:checked|copied|confirmed|decided|determined|pinned))\b",
    re.IGNORECASE,
)
_CUSTOM = re.compile(r"\bforward_backward_custom\b|\bcustom (?:loss|part|objective|optimizer)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def optimizers(spec: Spec) -> Iterator[Finding]:
    """R-040: the optimizer that the text names."""
    name = spec.section("optimizer").get("name")
    texts = [_text(spec, field) for field in (*_NARRATIVE, "command")]
    named = {word.lower(): word for text in texts for word in _OPTIMIZERS.findall(text)}
    if is_text(name) and named and name.lower() not in named:
        others = " and ".join(named[word] for word in sorted(named))
        text = (
            f"It is {show(name)}, but the text says {others}. They are not the same update; name "
            "in both places the family that the service reports."
        )
        yield warning("R-040", "optimizer.name", text)


def step_counts(spec: Spec) -> Iterator[Finding]:
    """R-040."""
    said = [int(n) for field in _NARRATIVE for some, n in _STEPS.findall(_text(spec, field)) if not some]
    planned = spec.value.get("steps")
    if is_whole(planned) and said and planned not in said:
        text = f"It is {planned}, but the text speaks of {said[0]} steps. Correct one of them."
        yield warning("R-040", "steps", text)


def seed_counts(spec: Spec) -> Iterator[Finding]:
    """R-040."""
    fields = (*_NARRATIVE, "success_criterion")
    said = [int(count) for field in fields for count in _SEEDS.findall(_text(spec, field))]
    schedule = as_list(spec.section("decision_rule").get("seeds"))
    if schedule and said and len(schedule) not in said:
        text = f"It schedules {len(schedule)}, but the text speaks of {said[0]}. Correct one of them."
        yield warning("R-040", "decision_rule.seeds", text)


def batches(spec: Spec) -> Iterator[Finding]:
    """R-040: `32 problems with 8 rollouts` each step."""
    said = [(int(a), int(b)) for field in ("method", "baseline") for a, b in _BATCH.findall(_text(spec, field))]
    size, steps, planned = (
        spec.value.get("batch_size"),
        spec.value.get("steps"),
        spec.section("dataset").get("n_examples"),
    )
    if is_whole(size) and said and size not in [a * b for a, b in said]:
        (a, b), *_ = said
        text = f"It is {size}, but the text speaks of {a} x {b} = {a * b} sequences per step. Correct one of them."
        yield warning("R-040", "batch_size", text)
    if is_whole(planned) and is_whole(steps) and said and not spec.arms and planned not in [a * steps for a, _ in said]:
        read = f"{steps} steps of {said[0][0]} prompts are {steps * said[0][0]}"
        text = f"It is {planned}, but {read}. State the number that the run uses, so that its cost can be projected."
        yield warning("R-040", "dataset.n_examples", text)


def item_counts(spec: Spec) -> Iterator[Finding]:
    """R-040."""
    said = [int(n.replace(",", "")) for n in _ITEMS.findall(_text(spec, "success_criterion"))]
    planned = spec.section("eval").get("n_examples")
    if is_whole(planned) and said and planned not in said:
        text = f"It is {planned}, but the success criterion speaks of {said[0]} items. Correct one of them."
        yield warning("R-040", "eval.n_examples", text)


def margins(spec: Spec) -> Iterator[Finding]:
    """R-040: margins that the success criterion does not name."""
    said = points(_text(spec, "success_criterion"))
    for index, entry in enumerate(as_list(spec.section("decision_rule").get("criteria"))):
        margin = as_mapping(entry).get("margin")
        if is_number(margin) and margin != 0 and said and not said & {_rounded(margin), _rounded(100 * margin)}:
            text = (
                f"It is {show(margin)}, which the success criterion does not name (it has {_list(said)} in points). "
                "Correct one of them: the rule decides, and the criterion is what people read."
            )
            yield warning("R-040", f"decision_rule.criteria[{index}].margin", text)


def confidence(spec: Spec) -> Iterator[Finding]:
    """R-040."""
    alpha = spec.section("decision_rule").get("alpha")
    said = [float(level) for level in _CONFIDENCE.findall(_text(spec, "success_criterion"))]
    if is_number(alpha) and said and _rounded(100 * (1 - alpha)) not in map(_rounded, said):
        text = (
            f"It is {show(alpha)}, a level of {_rounded(100 * (1 - alpha)):g} %, but the success criterion speaks of "
            f"{said[0]:g} %. Correct one of them."
        )
        yield warning("R-040", "decision_rule.alpha", text)


def claims(spec: Spec) -> Iterator[Finding]:
    """Whether the criterion tests the numbers that the hypothesis claims (R-030)."""
    claimed = points(_text(spec, "hypothesis"))
    rule = [as_mapping(entry).get("margin") for entry in as_list(spec.section("decision_rule").get("criteria"))]
    tested = points(_text(spec, "success_criterion"))
    tested |= {_rounded(scale * margin) for margin in rule if is_number(margin) for scale in (1, 100)}
    untested = claimed - tested
    if untested and tested:
        text = (
            f"The hypothesis claims {_list(untested)} points, which the criterion does not test; it has "
            f"{_list(tested)}. Could the criterion be met while the hypothesis is false, or the other way round?"
        )
        yield question("R-030", "success_criterion", text)


def ties(spec: Spec) -> Iterator[Finding]:
    """Sentences that call sameness a failure (R-064)."""
    for sentence in _SENTENCE_END.split(_text(spec, "success_criterion")):
        found = _SAMENESS.search(sentence)
        if found and _FAILURE.search(sentence):
            text = (
                f"{_quote(sentence, found.start())} seems to call a small difference a failure. That is a tie, and "
                "inconclusive; should it be a tie_band of the decision rule instead?"
            )
            yield question("R-064", "success_criterion", text)


def unsettled(spec: Spec) -> Iterator[Finding]:
    """Prose that leaves something to be settled, though a version is immutable (R-002)."""
    for field in (*_NARRATIVE, "success_criterion", "command"):
        for sentence in _SENTENCE_END.split(_text(spec, field)):
            found = _UNSETTLED.search(sentence)
            if found:
                text = (
                    f"{_quote(sentence, found.start())} leaves something open, and a saved version never changes. Is "
                    "it settled by now? Then write down how; if not, save the version when it is."
                )
                yield question("R-002", field, text)
                break


def custom_paths(spec: Spec) -> Iterator[Finding]:
    """Text that speaks of custom code, where no feature declares it (R-088: text declares nothing)."""
    declared = (spec.features.get("custom_loss"), spec.features.get("custom_optimizer"))
    if True in declared:
        return
    for field in ("method", "command"):
        found = _CUSTOM.search(_text(spec, field))
        if found:
            text = (
                f"It speaks of {show(found[0])}, and neither custom_loss nor custom_optimizer is declared true. Does "
                "the run compute a loss or an update of its own? Then declare it, and plan its correctness_preflight."
            )
            yield question("R-100", field, text)
            return


def served_model(spec: Spec) -> Iterator[Finding]:
    """R-081: a service that lacks the model runs another one."""
    model = spec.value.get("base_model")
    checks = [as_mapping(check) for check in as_list(spec.section("activation_gate").get("checks"))]
    if is_text(model) and not any(list(as_list(check.get("one_of"))) == [model] for check in checks):
        text = (
            f"Does the service that will run this serve {show(model)}? No activation check asks for exactly this "
            "model, so a substitute would pass the gate; add a check with one_of, or name a model that is served."
        )
        yield question("R-081", "base_model", text)


def is_open(text: str) -> bool:
    """Whether a text leaves something to be settled, by its own words: assumed, pending, to be pinned."""
    return _UNSETTLED.search(text[:_LONGEST_READ]) is not None


def points(text: str) -> set[float]:
    """Every amount that a text names, in points: `5 points`, `5%` and `0.05` are 5."""
    named = {_rounded(float(amount)) for amount in _POINTS.findall(_CONFIDENCE.sub(" ", text))}
    return named | {_rounded(100 * float(amount)) for amount in _DECIMALS.findall(text)}


def _text(spec: Spec, field: str) -> str:
    value = spec.value.get(field)
    return value[:_LONGEST_READ] if isinstance(value, str) else ""


def _rounded(amount: float) -> float:
    return round(abs(amount), 6)


def _list(amounts: set[float]) -> str:
    """`1.5, 2 and 3`."""
    *most, last = [f"{amount:g}" for amount in sorted(amounts)[:6]]
    return f"{', '.join(most)} and {last}" if most else last


def _quote(sentence: str, at: int) -> str:
    """What stands around a place in a sentence, between quotation marks."""
    start = max(0, at - _SHOWN // 2) if len(sentence) > _SHOWN else 0
    shown = sentence[start : start + _SHOWN].strip()
    before, after = "…" * (start > 0), "…" * (start + _SHOWN < len(sentence))
    return f'"{before}{shown}{after}"'
