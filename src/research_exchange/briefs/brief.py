"""The whole brief: its sections in their order (R-050)."""

from collections.abc import Callable
from dataclasses import dataclass

from research_exchange.briefs.conditions import has_activation_contract, needs_batch_order
from research_exchange.briefs.input import BriefInput
from research_exchange.briefs.opening import opening, spec_block
from research_exchange.briefs.texts import load
from research_exchange.briefs.work import how_to_work
from research_exchange.documents.effective_config import SETTINGS
from research_exchange.documents.evidence import KINDS
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import check_applicability

__all__ = ["SECTIONS", "Section", "render_brief"]


@dataclass(frozen=True)
class Section:
    """A part of a brief under a heading of its own."""

    heading: str
    write: Callable[[BriefInput], str]
    applies: Callable[[Spec], bool] = lambda spec: True
    """False only where the spec explicitly does without it (R-054)."""


def render_brief(brief: BriefInput) -> str:
    """The brief as Markdown. The same input always gives the same text (R-051)."""
    parts = [opening(brief)]
    for section in SECTIONS:
        if section.applies(brief.spec):
            parts += [f"## {section.heading}", section.write(brief)]
    return "\n\n".join(parts) + "\n"


def _reporting(brief: BriefInput) -> str:
    return brief.fill(load("reporting"), how_to_report=brief.fill(brief.profile.reporting))


def _activation(brief: BriefInput) -> str:
    length = "short" if has_activation_contract(brief.spec) else "long"
    return brief.fill(load(f"activation_{length}"), calibration=load("activation_calibration"))


def _decision(brief: BriefInput) -> str:
    has_rule = bool(brief.spec.section("decision_rule"))
    return brief.fill(load("decision"), has_rule=load("decision_rule" if has_rule else "decision_without_rule"))


def _evidence(brief: BriefInput) -> str:
    named = ("script", "effective_config", "code_revision", "code_patch", "predictions", "generated_tasks")
    further = ", ".join(f"`{kind}`" for kind in KINDS if kind not in named)
    settings = ", ".join(f"`{setting.name}`" for setting in SETTINGS)
    return brief.fill(
        load("evidence"), kinds=further, settings=settings, attachments=brief.fill(brief.profile.attachments)
    )


def _feasibility(brief: BriefInput) -> str:
    setup = "setup with the time that a fork takes" if brief.profile.has_forks else "setup"
    return brief.fill(load("feasibility"), setup=setup)


def _generation_audit(brief: BriefInput) -> str:
    answer = check_applicability(brief.spec.value, "generation_audit")
    return brief.fill(
        load("generation_audit"), audit_status=answer["status"].value.replace("_", " "), audit_reason=answer["reason"]
    )


SECTIONS = (
    Section("Experiment spec", spec_block),
    Section("How to work", how_to_work),
    Section("What you report", _reporting),
    Section("Changes from the spec", lambda brief: load("deviations")),
    Section("Correctness preflight", lambda brief: load("correctness")),
    Section("Activation gate", _activation),
    Section("Evaluation", lambda brief: load("evaluation")),
    Section("Decision", _decision),
    Section("Evidence", _evidence),
    Section("Feasibility", _feasibility),
    Section("Paired arms and batch order", lambda brief: load("batch_order"), needs_batch_order),
    Section("Generation audit", _generation_audit),
)
"""In the order of a brief; the opening stands before them."""
