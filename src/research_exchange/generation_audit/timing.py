"""Whether an audit came before the training it guards (R-196)."""

from collections.abc import Sequence

from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.fields import as_list, as_mapping, is_whole, show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Flag
from research_exchange.documents.generation_audit import AuditReport
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec

__all__ = ["early_results", "lateness"]

_STAGE = "generation_audit.stage"
_ACTION = "Audit, and report, before the first optimizer update; what comes after it guards nothing."


def lateness(spec: Spec, state: RunState, report: AuditReport, update: int, shelf: EvidenceShelf) -> Findings:
    """What shows that a report, posted first by this update, came too late; empty where nothing does."""
    findings = Findings()
    _check_training(spec, state, update, findings)
    for name in ("dataset_file", "evaluation_file", "audit_file"):
        file = shelf.find(getattr(report, name) or "")
        if file is not None and file.after >= update:
            found = f"{show(file.name)}, which came after update {update} named it"
            action = "Attach the file first, then report the audit again."
            findings.miss("R-191", f"generation_audit.{name}", "a file frozen before the audit", found, action)
    return findings


def early_results(spec: Spec, state: RunState, update: int) -> list[Flag]:
    """Trained arms with metrics from before the first audit, which this update posted: they may be of a training."""
    flags = []
    for arm in _trained_arms(spec):
        first = min((history.values[0].update for history in state.arms.get(arm, {}).values()), default=update)
        if first < update:
            text = f"has results of {show(arm)}, before the first generation audit, in update {update}."
            flags.append(Flag("R-196", first, text))
    return flags


def _check_training(spec: Spec, state: RunState, update: int, findings: Findings) -> None:
    trained = _trained_arms(spec)
    done = [arm for arm in trained if state.completed_arms.get(arm, update) < update]
    if done:
        found = f"{show_names(done)} completed before update {update}"
        findings.contradict("R-196", _STAGE, "an audit before training", found, _ACTION)
    saved = _first_training_checkpoint(state)
    if saved is not None and saved < update:
        found = f"a trained checkpoint in update {saved}, before update {update}"
        findings.contradict("R-196", _STAGE, "an audit before training", found, _ACTION)
    is_over = update == state.final_update or _is_completed(spec, trained, state, update)
    if is_over and not findings.problems:
        expected = "an audit reported while there was still an arm to train"
        findings.miss("R-196", _STAGE, expected, f"the first one in update {update}", _ACTION)


def _trained_arms(spec: Spec) -> tuple[str, ...]:
    """Arms that the spec says are trained: by their steps, or in a group that starts from one adapter (R-090)."""
    groups = as_list(spec.section("restoration_preflight").get("groups"))
    restored = {
        name
        for group in groups
        for arm in as_list(as_mapping(group).get("arms"))
        if isinstance(name := as_mapping(arm).get("name"), str)
    }
    return tuple(arm.name for arm in spec.arms if arm.is_trained or (arm.is_trained is None and arm.name in restored))


def _is_completed(spec: Spec, trained: Sequence[str], state: RunState, update: int) -> bool:
    """Whether a trained arm was complete by this update; where the spec names none, whether every arm was."""
    if trained:
        return any(state.completed_arms.get(arm, update + 1) <= update for arm in trained)
    arms = [arm.name for arm in spec.arms if arm.is_trained is not False]
    return bool(arms) and all(state.completed_arms.get(arm, update + 1) <= update for arm in arms)


def _first_training_checkpoint(state: RunState) -> int | None:
    """The first update with a checkpoint that optimizer steps led to."""
    for posted in state.posted.get("evidence", ()):
        for entry in as_list(as_mapping(posted.value).get("checkpoints")):
            step = as_mapping(entry).get("step")
            if is_whole(step) and step > 0:
                return posted.update
    return None
