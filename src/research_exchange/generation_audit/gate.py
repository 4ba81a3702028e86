"""Reads the generation audit of a run: its reports, the files they name, and when they came (contract §17)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import is_same, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Flag, GateStatus, Problem, Provenance, Reading
from research_exchange.documents.generation_audit import AuditContract, AuditReport, parse_contract, parse_report
from research_exchange.documents.json import DocumentError, canonical, parse
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Spec
from research_exchange.generation_audit.files import AuditFiles
from research_exchange.generation_audit.held_out import check_held_out
from research_exchange.generation_audit.repetition import check_repetition
from research_exchange.generation_audit.timing import early_results, lateness
from research_exchange.generation_audit.validation import Audit, hold_audit, miss_strategy

__all__ = ["plan_problems", "read_generation_audit"]

_MAX_LOOKED_AT = 10
"""Earlier versions of an audit that are recomputed to find one in time."""


def plan_problems(spec: Spec) -> tuple[Problem, ...]:
    """What is wrong with a spec's own `generation_audit` (R-190, R-194). Never raises."""
    contract = parse_contract(spec.section("generation_audit"))
    findings = Findings()
    findings.add(contract.findings)
    if contract.comparison is None:
        miss_strategy(findings)
    return findings.problems


def read_generation_audit(spec: Spec, state: RunState, shelf: EvidenceShelf) -> Reading:
    """Judges the latest audit against the retained files; what earlier ones found stays in force (R-199)."""
    contract = parse_contract(spec.section("generation_audit"))
    versions = _versions(state.posted.get("generation_audit", ()))
    if not versions:
        findings = Findings()
        findings.miss("R-190", "generation_audit", "an audit before training", "nothing", "Audit, then train.")
        findings.add(contract.findings)
        return Reading(findings.status, "No generation audit was reported.", findings.problems)
    *earlier, latest = versions
    first = min(version.update for version in versions)
    files = AuditFiles(shelf)
    audit = _hold(contract, latest.report, files)
    findings = audit.findings
    _check_audit_file(latest.report, shelf, findings)
    untied = check_held_out(spec, state, latest.report, files, findings)
    check_repetition(contract, latest.report, [version.report for version in earlier], files, findings)
    if findings.status is GateStatus.PASSED:
        findings.add(_lateness(spec, state, contract, versions, files))
    return Reading(
        status=findings.status,
        reason=_REASONS[findings.status],
        problems=findings.problems,
        computed=audit.computed,
        provenance={name: Provenance.RECOMPUTED for name in audit.computed if name not in _DECLARED},
        flags=(
            *early_results(spec, state, first),
            *_repetition_flags(versions),
            *_reasoning_flags(latest),
            *_unaudited_flags(versions, files),
            *untied,
        ),
    )


_REASONS = {
    GateStatus.PASSED: "The audit holds for the retained tasks and evaluation set, given the reported answers.",
    GateStatus.FAILED: "The audit is contradicted by what was reported or retained.",
    GateStatus.UNVERIFIED: "The audit cannot be recomputed in full.",
}
_DECLARED = frozenset({"label_errors"})
"""Recomputed from answers that are the runner's word."""


@dataclass(frozen=True)
class _Version:
    """One report, under the update that posted it first."""

    update: int
    report: AuditReport


def _versions(history: Sequence[Posted]) -> list[_Version]:
    """The different reports in the order of their first posting, except that the newest one stands last."""
    first: dict[bytes, Posted] = {}
    for posted in history:
        first.setdefault(canonical(posted.value), posted)
    if history:
        newest = canonical(history[-1].value)
        first[newest] = first.pop(newest)
    return [_Version(posted.update, parse_report(posted.value)) for posted in first.values()]


def _hold(contract: AuditContract, report: AuditReport, files: AuditFiles) -> Audit:
    return hold_audit(report, contract, files.tasks(report.dataset_file), files.evaluation(report.evaluation_file))


def _check_audit_file(report: AuditReport, shelf: EvidenceShelf, findings: Findings) -> None:
    """The audit is retained beside the report, and does not say otherwise (R-192)."""
    if report.audit_file is None:
        return
    path = "generation_audit.audit_file"
    action = "Retain the audit as it was done, in a new file."
    try:
        value = parse(shelf.read(report.audit_file))
    except (EvidenceLost, DocumentError) as error:
        findings.miss("R-192", path, "a retained file with one JSON object", str(error), action)
        return
    if not isinstance(value, Mapping):
        findings.miss("R-192", path, "a retained file with one JSON object", show(value), action)
        return
    for name, expected, found in _differences(report, parse_report(value)):
        findings.contradict("R-197", path, f"{name} {expected}, as reported", found, action)


def _differences(report: AuditReport, kept: AuditReport) -> list[tuple[str, str, str]]:
    """What both say, and say differently: name, reported, kept."""
    pairs = [
        ("sample_seed", report.seed, kept.seed),
        ("label_error_count", report.label_errors, kept.label_errors),
        ("overlap_count", report.overlaps, kept.overlaps),
        *((f"counts.{name}", count, kept.counts.get(name)) for name, count in report.counts.items()),
    ]
    different = [(n, show(a), show(b)) for n, a, b in pairs if a is not None and b is not None and a != b]
    answers = {sample.item_id: sample.answer for sample in kept.samples or ()}
    return different + [
        (f"{sample.path}.independent_answer", show(sample.answer), show(answers[sample.item_id]))
        for sample in report.samples or ()
        if sample.item_id in answers and not is_same(sample.answer, answers[sample.item_id])
    ]


def _lateness(
    spec: Spec, state: RunState, contract: AuditContract, versions: Sequence[_Version], files: AuditFiles
) -> Findings:
    """Nothing, where the audit held in time: in this version or in an earlier one of the same frozen files."""
    latest = versions[-1]
    frozen = _frozen(latest, files)
    late = lateness(spec, state, latest.report, latest.update, files.shelf)
    in_time = (
        version
        for version in versions[:-1]
        if _frozen(version, files) == frozen
        and not lateness(spec, state, version.report, version.update, files.shelf).problems
    )
    if not late.problems or any(
        _hold(contract, version.report, files).findings.status is GateStatus.PASSED
        for version in islice(in_time, _MAX_LOOKED_AT)
    ):
        return Findings()
    return late


def _frozen(version: _Version, files: AuditFiles) -> tuple[str | None, str | None]:
    """The hashes of the files that an audit speaks of."""
    return files.sha256(version.report.dataset_file), files.sha256(version.report.evaluation_file)


def _repetition_flags(versions: Sequence[_Version]) -> list[Flag]:
    latest = versions[-1]
    text = f"reports a generation audit that the one of update {latest.update} replaces; what it found stays in force."
    return [Flag("R-199", version.update, text) for version in versions[:-1][:MAX_PROBLEMS]]


def _reasoning_flags(version: _Version) -> list[Flag]:
    """One text for tasks that differ is hardly how each of them was solved."""
    samples = version.report.samples or ()
    if len(samples) < 2 or len({sample.reasoning for sample in samples}) > 1 or samples[0].reasoning is None:
        return []
    return [Flag("R-192", version.update, f"gives one and the same reasoning for all {len(samples)} sampled tasks.")]


def _unaudited_flags(versions: Sequence[_Version], files: AuditFiles) -> list[Flag]:
    named = {name for version in versions for name in (version.report.dataset_file, version.report.evaluation_file)}
    others = [file for file in files.shelf.files if file.kind == "generated_tasks" and file.name not in named]
    text = "of generated tasks is named by no audit."
    return [Flag("R-191", file.update, f"The file {show(file.name)} {text}") for file in others]
