"""How to work: what will be checked, and the rules of conduct of a run (R-050, 9)."""

from research_exchange.briefs.conditions import needs_probe, needs_restoration, needs_tuning
from research_exchange.briefs.input import BriefInput
from research_exchange.briefs.profiles import ServiceProfile
from research_exchange.briefs.texts import fill, load
from research_exchange.documents.gates import Applicability
from research_exchange.experiment_features import CHECKS, check_applicability

__all__ = ["how_to_work"]


def how_to_work(brief: BriefInput) -> str:
    """The rules of conduct, the table of gates, and the restoration preflight with its schemas."""
    spec, profile = brief.spec, brief.profile
    bullets = [
        _access(profile),
        profile.surroundings,
        load("budget"),
        load("probe") if needs_probe(spec) else "",
        load("tuned_arms") if needs_tuning(spec) else "",
        load("missing_model"),
        profile.extension,
        load("capacity"),
        profile.cleanup,
    ]
    parts = [brief.fill("\n".join(bullet for bullet in bullets if bullet)), _gate_table(brief)]
    if needs_restoration(spec):
        parts.append(brief.fill(load("restoration"), optimizer=brief.fill(profile.optimizer)))
    return "\n\n".join(parts)


def _access(profile: ServiceProfile) -> str:
    headers = " and ".join(f"`{header.name}` with the value of `${header.variable}`" for header in profile.headers)
    login = f"Every request also carries {headers} as headers." if headers else "There is no other login."
    return fill(load("access"), url_variable=profile.url_variable, key_variable=profile.key_variable, login=login)


def _gate_table(brief: BriefInput) -> str:
    """Each gate with whether it applies to this spec and why; the Exchange's own answer to the spec (R-086)."""
    rows = ["| gate | applies | because |", "|---|---|---|"]
    for check in CHECKS:
        answer = check_applicability(brief.spec.value, check)
        rows.append(f"| `{check}` | {_APPLIES[answer['status']]} | {answer['reason']} |")
    has_rule = bool(brief.spec.section("decision_rule"))
    status = Applicability.REQUIRED if has_rule else Applicability.NOT_APPLICABLE
    rows.append(f"| `decision` | {_APPLIES[status]} | the spec has {'a' if has_rule else 'no'} `decision_rule`. |")
    return f"### What the Exchange will check\n\n{load('gates')}\n\n" + "\n".join(rows)


_APPLIES = {
    Applicability.REQUIRED: "yes",
    Applicability.NOT_APPLICABLE: "no",
    Applicability.UNKNOWN: "unknown: prepare for yes",
}
