"""What earlier audits of a run say about the latest one: a repeated audit repairs, it does not pick (R-199)."""

from collections.abc import Iterable, Mapping

from research_exchange.documents.fields import show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.generation_audit import AnswerComparison, AuditContract, AuditReport
from research_exchange.documents.json import JsonValue
from research_exchange.generation_audit.answers import answer_agreement
from research_exchange.generation_audit.files import AuditFiles
from research_exchange.generation_audit.prompts import prompt_key

__all__ = ["check_repetition"]


def check_repetition(
    contract: AuditContract, latest: AuditReport, earlier: Iterable[AuditReport], files: AuditFiles, findings: Findings
) -> None:
    """Holds the latest audit against those before it.

    Neither another seed, nor another answer, nor another name for the tasks makes a label right that an audit of this
    run found wrong; and no prompt leaves the evaluation set to make an overlap go away.
    """
    reports = tuple(earlier)
    if contract.comparison is not None and reports:
        _check_labels(contract, contract.comparison, latest, reports, files, findings)
    _check_evaluation(latest, reports, files, findings)
    _check_audit_file(latest, reports, files, findings)


def _check_labels(
    contract: AuditContract,
    comparison: AnswerComparison,
    latest: AuditReport,
    earlier: Iterable[AuditReport],
    files: AuditFiles,
    findings: Findings,
) -> None:
    wrong = _wrong_labels(comparison, (*earlier, latest), files)
    kept = [
        task.item_id
        for task in files.accepted(latest.dataset_file).values()
        if wrong and _is_among(wrong.get(prompt_key(task.prompt), ()), task.answer, comparison)
    ]
    if len(kept) > contract.max_label_errors:
        expected = f"at most {contract.max_label_errors} tasks whose label an audit of this run found wrong"
        action = "Repair or reject them; a new seed, answer or name does not."
        found = f"{len(kept)}: {show_names(kept)}"
        findings.contradict("R-199", "generation_audit.dataset_file", expected, found, action)


def _wrong_labels(
    comparison: AnswerComparison, reports: Iterable[AuditReport], files: AuditFiles
) -> Mapping[bytes, list[JsonValue]]:
    """By prompt, the labels that an independent answer contradicted."""
    wrong: dict[bytes, list[JsonValue]] = {}
    for report in reports:
        accepted = files.accepted(report.dataset_file)
        for sample in report.samples or ():
            task = accepted.get(sample.item_id)
            if task is None or answer_agreement(task.answer, sample.answer, comparison) is not False:
                continue
            labels = wrong.setdefault(prompt_key(task.prompt), [])
            if not _is_among(labels, task.answer, comparison):
                labels.append(task.answer)
    return wrong


def _is_among(labels: Iterable[JsonValue], label: JsonValue, comparison: AnswerComparison) -> bool:
    return any(answer_agreement(label, other, comparison) for other in labels)


def _check_evaluation(
    latest: AuditReport, earlier: Iterable[AuditReport], files: AuditFiles, findings: Findings
) -> None:
    others = dict.fromkeys(report.evaluation_file for report in earlier if report.evaluation_file is not None)
    others.pop(latest.evaluation_file or "", None)
    for name in others:
        before, now = files.held_out(name), files.held_out(latest.evaluation_file)
        gone = 0 if before is None or now is None else len(before - now)
        if gone:
            expected = "every prompt of the evaluation set that an earlier audit of this run froze"
            action = "Freeze the full evaluation set, and repair the tasks instead."
            path = "generation_audit.evaluation_file"
            findings.contradict("R-199", path, expected, f"{gone} of them gone", action)


def _check_audit_file(
    latest: AuditReport, earlier: Iterable[AuditReport], files: AuditFiles, findings: Findings
) -> None:
    dataset = files.sha256(latest.dataset_file)
    if latest.audit_file is None or dataset is None:
        return
    for report in earlier:
        other = files.sha256(report.dataset_file)
        if report.audit_file == latest.audit_file and other is not None and other != dataset:
            action = "Retain the audit of a new dataset under a new name."
            found = "that of an audit of another dataset"
            findings.contradict("R-199", "generation_audit.audit_file", "a new file", found, action)
            return
