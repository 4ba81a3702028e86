"""The recorded outcome of a run in large letters: what is recorded, and what stands against it."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.json import JsonValue

__all__ = ["Banner", "recorded_banner"]


@dataclass(frozen=True)
class Banner:
    tone: str
    """A class of the stylesheet: supported, refuted, withheld, inconclusive, contradicted, running."""
    label: str
    headline: str
    explanation: str
    recorded: Mapping[str, JsonValue] | None
    """The judgment that the run ended with; None while it goes on."""
    objections: tuple[str, ...] = ()
    """What stands against a definitive verdict besides what `explanation` says."""


def recorded_banner(recorded: Mapping[str, JsonValue], *, contradicted: bool) -> Banner:
    """
    Args:
        recorded: The judgment on record, with a verdict.
        contradicted: What there is of the run now leads to another verdict.
    """
    verdict, explanation = str(recorded.get("recorded_verdict")), str(recorded.get("explanation", ""))
    tone, label = verdict, "Recorded by the Exchange"
    if contradicted:
        tone, label = "contradicted", "Recorded by the Exchange, but no longer borne out"
    elif recorded.get("withheld"):
        tone, label = "withheld", "Recorded by the Exchange, which withholds the reported verdict"
    objections = (str(as_mapping(each).get("text")) for each in as_list(recorded.get("withheld_because")))
    return Banner(
        tone=tone,
        label=label,
        headline=verdict.capitalize(),
        explanation=explanation,
        recorded=recorded,
        objections=tuple(text for text in objections if text != explanation),
    )
