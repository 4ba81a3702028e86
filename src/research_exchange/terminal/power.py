"""The power card in a terminal: what a decision rule can tell before anything runs."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from research_exchange.terminal.words import Json, literal, problems, section, title_line

_CAN = {True: "can come out", False: "cannot come out, whatever the data say", None: "could not be computed"}
_VERDICTS = (("supported", "support"), ("refuted", "refute"))


def power_report(card: Json) -> RenderableType:
    """For each criterion what it takes, and what a true effect makes likely."""
    parts: list[RenderableType] = [title_line(card["title"])]
    if card["method"] is not None:
        parts += [_rule(card), *_possible(card)]
    for criterion in card["criteria"]:
        parts += ["", *_criterion(criterion, card["assumed_discordance"])]
    parts += section("What is wrong", *([problems(card["problems"])] if card["problems"] else []))
    parts += section("To keep in mind", *(literal(f"- {note}") for note in card["notes"]))
    return Group(*parts)


def _rule(card: Json) -> Text:
    count = "an unknown number of items" if card["n"] is None else f"n = {card['n']:,}"
    source = "" if card["n_from"] in (None, "given") else f", from {card['n_from']}"
    return literal(f"{card['method']} over {card['unit']}, alpha {card['alpha']:g}, {count}{source}")


def _possible(card: Json) -> Iterator[Text]:
    """Whether each verdict can come out at all (R-037)."""
    if card["can_support"] and card["can_refute"]:
        yield literal("Supported and refuted can both come out.")
        return
    for verdict, verb in _VERDICTS:
        possible: bool | None = card[f"can_{verb}"]
        yield Text.assemble(literal(verdict, "bold"), " ", literal(_CAN[possible], "" if possible else "bold red"))


def _criterion(criterion: Json, discordance: float) -> Iterator[RenderableType]:
    yield Text.assemble(
        literal(criterion["id"], "bold"), literal(f" ({criterion['metric']}, margin {criterion['margin']:+g})")
    )
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for name, value in _facts(criterion):
        facts.add_row(f"  {name}", literal(value))
    yield facts
    if criterion["chances"]:
        assumed = f", where {100 * discordance:g} % of the items are passed by one arm alone" * _is_pair(criterion)
        yield literal(f"  chances{assumed}", "dim")
        yield _chances(criterion["chances"])


def _is_pair(criterion: Json) -> bool:
    """Whether it is a difference, which can fall on either side of 0 alike."""
    low, high = criterion["range"]
    return bool(low == -high)


def _facts(criterion: Json) -> Iterator[tuple[str, str]]:
    words = ("net wins", "where the arms are equal"), ("passed items", "at half of the items")
    unit, equal = words[0 if _is_pair(criterion) else 1]
    if criterion["half_width"] is not None:
        yield "half-width", f"{criterion['half_width']:.4f}, {equal}"
    for verdict, verb, direction in (("supported", "support", "or more"), ("refuted", "refute", "or fewer")):
        wins, effect = criterion[f"net_wins_to_{verb}"], criterion[f"effect_to_{verb}"]
        if wins is not None:
            yield f"{verdict} takes", f"{wins:+,} {unit} {direction}, an effect of {effect:+.4f}"
        elif effect is not None:
            yield f"{verdict} takes", f"an effect of {effect:+.4f} {direction.replace('fewer', 'less')}"
        elif criterion[f"can_{verb}"] is False:
            yield f"{verdict} takes", "more than any data can show"
    if criterion["n_for_margin"] is not None:
        yield "half-width within margin", f"from {criterion['n_for_margin']:,} items on"
    if criterion["can_tie"] is False:
        yield "tie band", "narrower than any interval: a tie cannot come out"


def _chances(chances: Sequence[Json]) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    drawn.add_column("    true effect", style="dim", no_wrap=True)
    for chance in chances:
        drawn.add_column(f"{chance['effect']:+g}", justify="right")
    for verdict in ("supported", "refuted"):
        drawn.add_row(f"    {verdict}", *(_percent(chance[verdict]) for chance in chances))
    return drawn


def _percent(chance: float | None) -> str:
    if chance is None:
        return "?"
    if 0 < chance < 0.0005:
        return "<0.1 %"
    return f"{100 * chance:.1f} %"
