"""Whether an arm's optimizer is the one that was asked for, at its creation and after every restore (R-097, R-098)."""

from collections.abc import Mapping

from research_exchange.documents.fields import is_number, is_same, is_text, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue
from research_exchange.documents.provenance import OptimizerCheck
from research_exchange.documents.restoration_plan import PlannedArm
from research_exchange.restoration.proofs import ProofFiles

__all__ = ["SAME_WITHOUT_DECAY", "check_optimizer"]

SAME_WITHOUT_DECAY = frozenset({frozenset({"adam", "adamw"})})
"""Families that take the same steps without weight decay, and only then; services call Adam by either name."""

_STOP = "Stop: a family or setting was swapped. Create the client with what the spec asks for, and look again."


def check_optimizer(check: OptimizerCheck, asked: PlannedArm, files: ProofFiles, findings: Findings) -> None:
    """Holds one observation against the plan and against its evidence.

    A key that the server does not report is missing, not wrong; a declared observation shows nothing at all, which its
    parser notes.
    """
    if not check.from_server or check.actual is None or findings.is_settled:
        return
    _check_family(check, check.actual, asked, findings)
    claims: dict[str, JsonValue] = {"the optimizer family": check.actual}
    for key, wanted in asked.config.items():
        path, reported = f"{check.path}.actual_config.{key}", check.config.get(key)
        if reported is None:
            action = "Where the service does not report it, this stays unverified: ask a service that does."
            findings.miss("R-098", path, f"{show(wanted)}, as reported by the server", "nothing", action)
            continue
        if not is_same(wanted, reported):
            findings.contradict("R-098", path, f"{show(wanted)}, as {asked.path} asks", show(reported), _STOP)
        claims[key] = reported
    files.check(claims, check.evidence, "R-098", check.path, findings)


def _check_family(check: OptimizerCheck, actual: str, asked: PlannedArm, findings: Findings) -> None:
    if not _is_family(actual, asked.optimizer, asked.config, check.config):
        expected = f"{show(asked.optimizer)}, as {asked.path} asks"
        findings.contradict("R-098", f"{check.path}.actual", expected, show(actual), _STOP)
    stated = check.config.get("type")
    if is_text(stated) and stated.casefold() != actual.casefold():
        path, expected = f"{check.path}.actual_config.type", f"{show(actual)}, the actual family"
        findings.contradict("R-098", path, expected, show(stated), "Report one response of the server as it is.")


def _is_family(actual: str, wanted: str, asked: Mapping[str, JsonValue], reported: Mapping[str, JsonValue]) -> bool:
    families = frozenset({actual.casefold(), wanted.casefold()})
    if len(families) == 1:
        return True
    return families in SAME_WITHOUT_DECAY and not any(_decays(config) for config in (asked, reported))


def _decays(config: Mapping[str, JsonValue]) -> bool:
    """Whether weight decay is set; what is no number may be any."""
    decay = config.get("weight_decay")
    return decay is not None and not (is_number(decay) and decay == 0)
