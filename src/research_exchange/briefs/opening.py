"""The top of a brief: which idea, which version, why this run, and the spec itself (R-050, 1 to 8)."""

import json

from research_exchange.briefs.input import BriefInput
from research_exchange.documents.json import JsonValue
from research_exchange.documents.launch import LaunchMode

__all__ = ["opening", "spec_block"]

_PURPOSE = {
    LaunchMode.ORDINARY: "carry out the selected version as it was saved.",
    LaunchMode.REDO: (
        "repeat the selected version as it was saved, to learn whether its result comes out again. What is tested is "
        "that version's hypothesis, by that version's methods; results of earlier runs are no part of this one (R-006)."
    ),
}


def opening(brief: BriefInput) -> str:
    """Everything above the spec."""
    context = brief.context
    parts = [
        f"# {_line(context.title if context else brief.spec.title)}",
        "A run of the Research Exchange. You carry out an experiment and hand over what you measured; the Exchange "
        "keeps it and works out for itself what it shows. This brief has all that you need to know.",
        _quote(context.summary) if context else "",
        f"**Goal.** Carry this experiment out on {brief.profile.service}, through the unmodified `tinker` SDK or "
        f"`tinker-cookbook`, with `{brief.profile.url_variable}` as its address. Every number that you report was "
        "measured. If the experiment cannot be run there, report why.",
        f"**Selected version:** `{brief.spec_id}`",
        "The spec that was saved under this id is printed below. It alone defines the hypothesis, the methods and the "
        "success criterion.",
        "" if context else _CONTEXT_UNKNOWN,
        f"**Launch mode:** {brief.launch_mode.value}. **Purpose:** {_PURPOSE[brief.launch_mode]}",
    ]
    if context and context.source.strip():
        parts.append(f"**Source:** {_line(context.source)}")
    if context and context.triage.strip():
        parts.append(f"**Triage:**\n\n{_quote(context.triage)}")
    return "\n\n".join(part for part in parts if part)


_CONTEXT_UNKNOWN = (
    "**Context:** unknown. What was known about the idea was not kept with this version. Work from the spec alone: "
    "neither the idea as it reads today nor another run tells what was meant (R-003)."
)


def spec_block(brief: BriefInput) -> str:
    """The document in its own order, and at its end the computed feasibility check where the spec requires it."""
    document: dict[str, JsonValue] = {
        name: value for name, value in brief.spec.value.items() if name != "feasibility_check"
    }
    if brief.requires_feasibility:
        document["feasibility_check"] = brief.feasibility_check
    return f"```json\n{json.dumps(document, indent=2, ensure_ascii=True)}\n```"


def _line(text: str) -> str:
    """On one line, so that a title cannot start a section of its own."""
    return " ".join(text.split())


def _quote(text: str) -> str:
    """As a quotation: other people's words are told apart from the brief's, whatever they contain."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())
