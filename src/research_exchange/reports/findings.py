"""The sections on what was found: the decision, scores, gates, deviations, the arms with their settings, remarks."""

from collections.abc import Iterator, Mapping

from research_exchange.decision import Decision
from research_exchange.deviations import Recording
from research_exchange.documents.fields import is_number, is_text
from research_exchange.documents.gates import GateStatus
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import BASE_ARM, Spec
from research_exchange.judgment import Judgment
from research_exchange.presentation.criteria import CriterionPanel, Tally, compared_numbers, criteria
from research_exchange.presentation.words import number, short, signed, value_text, words
from research_exchange.reports.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Facts,
    Paragraph,
    Picture,
    Section,
    Standing,
    Table,
)
from research_exchange.statistics import SEEDS, UNITS

__all__ = [
    "arms_section",
    "decision_sections",
    "deviations_section",
    "gates_section",
    "remarks_section",
    "scores_section",
]

MAX_ROWS = 200
"""Of a table that grows with what a run reports."""
_LONGEST_VALUE = 240
_TONES = {
    GateStatus.PASSED: "good",
    GateStatus.FAILED: "bad",
    GateStatus.UNVERIFIED: "care",
    GateStatus.UNKNOWN: "care",
}
_PROSE = frozenset({"title", "hypothesis", "method", "success_criterion", "arms"})
"""Parts of a spec that are told elsewhere."""
_SETTINGS = frozenset({"optimizer", "budget"})
"""Parts of a spec with something inside that is a setting all the same."""


def decision_sections(judgment: Judgment) -> Iterator[Section]:
    """The decision with, for each criterion, its interval, and how the items came out."""
    decision, panels = judgment.decision, criteria(judgment.decision)
    if decision is None:
        text = "The spec has no decision rule, so nothing is recomputed: the verdict is the runner’s word."
        yield Section("decision", "Decision", [Paragraph(text)])
        return
    if not panels:
        problems = [Bullets([str(problem) for problem in decision.problems])] if decision.problems else []
        yield Section("decision", "Decision", [Paragraph(f"Nothing could be decided: {decision.status}."), *problems])
        return
    lead = (
        f"Recomputed from {number(decision.rows)} retained rows, item by item; the runner’s own interval is not used. "
        f"{UNITS.get(decision.unit or '', '')}"
    )
    condition = f" It is conditional on {decision.condition}." if decision.condition else ""
    yield Section("decision", "Decision", [Paragraph(lead + condition, "lead"), _tallies(panels)])
    for place, panel in enumerate(panels, start=1):
        yield _criterion(place, panel, decision)


def _tallies(panels: tuple[CriterionPanel, ...]) -> Table:
    head = ("Criterion", "Contrast", "Metric", "Effect", "Lower", "Upper", "Margin", "Wins", "Losses", "Ties", "State")
    rows: list[list[Cell]] = []
    for panel in panels:
        found = panel.result
        values = [signed(value) for value in (found.effect, found.lower, found.upper, found.margin)]
        state = found.state.value
        tone = {"pass": "good", "fail": "bad"}.get(state, "none")
        counts = _counts(panel.tally)
        rows.append([found.id, panel.contrast, found.metric, *values, *counts, Standing(state, tone)])
    return Table(head, rows, frozenset(range(3, 10)), "Effects against their margins, and items won, lost and tied")


def _counts(tally: Tally | None) -> list[str]:
    return ["", "", ""] if tally is None else [number(each) for each in (tally.wins, tally.losses, tally.ties)]


def _criterion(place: int, panel: CriterionPanel, decision: Decision) -> Section:
    found = panel.result
    percent = number(100 * (1 - found.alpha))
    estimate = f"{signed(found.effect)}, {percent}% interval {signed(found.lower)} to {signed(found.upper)}"
    facts: list[tuple[str, Cell]] = [
        *((f"Mean of {arm}", number(mean)) for arm, mean in found.means.items()),
        *((f"Effect with seed {seed}", signed(effect)) for seed, effect in found.per_seed.items()),
        ("Training seeds" if decision.unit == SEEDS else "Items", number(found.n)),
        ("Method", f"{decision.method}, α {number(found.alpha)}"),
        ("Evaluator", Code(found.evaluator)),
    ]
    if found.clusters:
        facts.append(("Clusters", number(found.clusters)))
    if found.population:
        facts.append(("Drawn from", f"{number(found.population)} items"))
    if found.tie_band:
        facts.append(("Tie band", f"{signed(found.tie_band.low)} to {signed(found.tie_band.high)}"))
    if decision.file:
        facts.append(("Rows in", decision.file))
    figure: list[Block] = [Picture(f"interval-{place:02}.svg", panel.figure)] if panel.figure else []
    blocks = [
        Paragraph(estimate, "estimate"),
        Paragraph(panel.settled),
        *figure,
        Facts(facts),
    ]
    return Section(f"interval-{place:02}", f"{words(found.id)}: {panel.contrast}", blocks, level=3)


def scores_section(state: RunState, judgment: Judgment) -> Section:
    """What each evaluator gave each arm and seed, and whether the retained rows give the same."""
    scores, numbers = state.evaluation.scores, compared_numbers(judgment)
    rows = [
        [each.arm, "" if each.seed is None else str(each.seed), each.metric, number(each.value), short(each.evaluator)]
        for each in scores[:MAX_ROWS]
    ]
    blocks: list[Block] = [Table(("Arm", "Seed", "Metric", "Score", "Evaluator"), rows, frozenset({3}))]
    blocks = [*blocks, *_more(len(scores))] if scores else [Paragraph("No score was reported.", "note")]
    if numbers:
        compared: list[list[Cell]] = [
            [
                each.path,
                number(each.reported),
                "unknown" if each.recomputed is None else number(each.recomputed),
                Standing("not what its rows give", "bad") if each.disagrees else each.provenance.value,
            ]
            for each in numbers[:MAX_ROWS]
        ]
        head = ("Number", "Reported", "Recomputed", "Rests on")
        blocks.append(Table(head, compared, frozenset({1, 2}), "What was reported, and what the rows give"))
        blocks += _more(len(numbers))
    return Section("scores", "Scores", blocks)


def gates_section(judgment: Judgment) -> Section:
    """Each gate that applies, with why it stands as it does."""
    lead = "What the spec requires, recomputed. A required gate that has not passed withholds a definitive verdict."
    applying = [gate for gate in judgment.gates if gate.status is not GateStatus.NOT_APPLICABLE]
    others = [words(gate.gate) for gate in judgment.gates if gate.status is GateStatus.NOT_APPLICABLE]
    rows: list[list[Cell]] = [
        [
            words(gate.gate),
            gate.applicability.value.replace("_", " "),
            Standing(gate.status.value, _TONES.get(gate.status, "none")),
            gate.reason,
        ]
        for gate in applying
    ]
    blocks: list[Block] = [Paragraph(lead, "lead"), Table(("Gate", "Applies", "State", "Why"), rows)]
    problems = [f"{words(gate.gate)}: {problem}" for gate in applying for problem in gate.problems]
    blocks += [Bullets(problems[:MAX_ROWS]), *_more(len(problems))] if problems else []
    values: list[list[Cell]] = [
        [words(gate.gate), name, _cut(value_text(value)), provenance.value if provenance else ""]
        for gate in applying
        for name, value in gate.computed.items()
        for provenance in [gate.provenance.get(name)]
    ]
    if values:
        blocks.append(Table(("Gate", "Value", "Found", "Rests on"), values[:MAX_ROWS], title="Values behind them"))
        blocks += _more(len(values))
    blocks += [Paragraph(f"Not applicable: {', '.join(others)}.", "note")] if others else []
    return Section("gates", "Gates", blocks)


def deviations_section(state: RunState, judgment: Judgment) -> Section:
    """What was done otherwise than the spec says: stated, and shown without a word about it."""
    found = judgment.deviations
    blocks: list[Block] = []
    if found.items:
        rows: list[list[Cell]] = [
            [
                each.field,
                each.original,
                each.effective,
                each.reason,
                Standing(each.recording.value, "good" if each.recording is Recording.RECORDED else "care"),
                f"in update {each.update}{', withdrawn later' if each.withdrawn else ''}",
            ]
            for each in found.items[:MAX_ROWS]
        ]
        head = ("Field", "In the spec", "As run", "Reason", "Stated", "When")
        blocks += [Table(head, rows), *_more(len(found.items))]
    elif "deviations" in state.posted:
        blocks.append(Paragraph("None: the runner states that it ran the spec as written."))
    else:
        blocks.append(Paragraph("Not stated.", "note"))
    if found.hypothesis_tested is False:
        instead = f": {found.tested_instead}" if found.tested_instead else ""
        blocks.append(Paragraph(f"Another hypothesis was tested than the spec’s{instead}"))
    if judgment.undeclared:
        shown = [
            [each.setting, " or ".join(map(value_text, each.planned)), value_text(each.effective), each.source]
            for each in judgment.undeclared
        ]
        columns = ("Setting", "In the spec", "As run", "Shown by")
        blocks.append(Table(columns, shown, title="Changed without a word about it"))
    return Section("deviations", "Deviations", blocks)


def arms_section(spec: Spec, state: RunState) -> Section:
    """The arms as the spec writes them, and the settings that they share."""
    rows: list[list[Cell]] = []
    for arm in spec.arms:
        own = {name: value for name, value in arm.value.items() if name not in ("name", "role")}
        rows.append([arm.name, arm.role or "", _completed(arm.name, state), _settings(own)])
    others = [name for name in (*state.arms, *state.completed_arms) if name not in spec.arm_names]
    for name in dict.fromkeys(others):
        if name == BASE_ARM:
            rows.append([name, "", _completed(name, state), "The model before any training."])
        else:
            rows.append([name, "", Standing("no arm of the spec", "care"), ""])
    blocks: list[Block] = [Table(("Arm", "Role", "Completed", "Settings"), rows[:MAX_ROWS]), *_more(len(rows))]
    shared = [(name, _cut(value_text(value))) for name, value in spec.value.items() if _is_setting(name, value)]
    return Section("arms", "Arms and settings", [*blocks, Facts(shared)])


def remarks_section(judgment: Judgment) -> Iterator[Section]:
    """What a reader should notice; none where there is nothing."""
    if judgment.flags:
        told = [str(flag) for flag in judgment.flags[:MAX_ROWS]]
        yield Section("remarks", "Remarks", [Bullets(told), *_more(len(judgment.flags))])


def _completed(arm: str, state: RunState) -> Standing:
    update = state.completed_arms.get(arm)
    return Standing("not completed", "none") if update is None else Standing(f"in update {update}", "good")


def _is_setting(name: str, value: JsonValue) -> bool:
    return name not in _PROSE and (isinstance(value, bool) or is_number(value) or is_text(value) or name in _SETTINGS)


def _settings(values: Mapping[str, JsonValue]) -> str:
    return "; ".join(f"{name} {_cut(value_text(value))}" for name, value in values.items())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _more(count: int) -> list[Block]:
    """Says that a table is cut."""
    return [Paragraph(f"And {count - MAX_ROWS:,} more, in the bundle.", "note")] if count > MAX_ROWS else []
