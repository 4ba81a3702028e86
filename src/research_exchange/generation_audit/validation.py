"""Holds a generation audit against the tasks and the evaluation set it speaks of (R-193, R-196, R-197)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypedDict

from research_exchange.documents.fields import show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import GateStatus
from research_exchange.documents.generated_tasks import (
    Disposition,
    EvaluationItem,
    GeneratedTask,
    Rows,
    read_evaluation,
    read_tasks,
)
from research_exchange.documents.generation_audit import (
    AnswerComparison,
    AuditContract,
    AuditReport,
    AuditSample,
    parse_contract,
    parse_report,
)
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.plain import plain
from research_exchange.generation_audit.answers import answer_agreement
from research_exchange.generation_audit.prompts import find_overlap, prompt_key

__all__ = ["Audit", "Validation", "hold_audit", "miss_strategy", "select_sample", "validate"]

_REPEAT = "Repair or reject these tasks, freeze a new dataset under a new name, and audit that one."
_TELLING_CODE = 40
"""Characters; a shorter program may well stand in an honest solution."""


class Validation(TypedDict):
    """R-196, in plain JSON."""

    status: GateStatus
    """`passed`, `failed` or `unverified`."""
    problems: list[JsonValue]
    """Each with rule, path, expected, found, action, and all of it as one sentence under `text`."""
    computed: dict[str, JsonValue]


def select_sample(tasks: Iterable[Mapping[str, JsonValue]], size: int, seed: int) -> list[Mapping[str, JsonValue]]:
    """The accepted tasks to solve again: the first `size` in the order of sha256 over the JSON `[seed, item_id]`.

    Nobody picks them by hand, and anybody can select them again.
    """
    accepted = [task for task in tasks if task.get("disposition") == Disposition.ACCEPTED]
    rank = _ranking(seed)
    return sorted(accepted, key=lambda task: rank(task.get("item_id")))[: max(size, 0)]


def _ranking(seed: int) -> Callable[[JsonValue], tuple[str, str]]:
    """What ids are sorted by: the hash of `json.dumps([seed, item_id])`, and the id itself should two be equal."""
    start = f"[{json.dumps(seed)}, "
    return lambda item_id: (sha256(f"{start}{json.dumps(item_id)}]".encode()).hexdigest(), str(item_id))


def validate(
    report: JsonValue,
    contract: JsonValue,
    *,
    tasks: JsonValue,
    evaluation: JsonValue,
    require_comparison: bool = True,
) -> Validation:
    """Whether an audit holds; training on the tasks waits for `passed`. Never raises.

    Args:
        report: The `generation_audit` to be reported.
        contract: The spec's `generation_audit`.
        tasks: All rows of the frozen dataset; None where there is no file.
        evaluation: All rows of the full evaluation set; None where there is no file.
        require_comparison: False for a spec from before answers had to be compared: then no comparison is asked of it,
            and without one the audit is unverified at best (R-19A).
    """
    audit = hold_audit(
        parse_report(report),
        parse_contract(contract),
        read_tasks(tasks, "tasks"),
        read_evaluation(evaluation, "evaluation"),
        require_comparison=require_comparison,
    )
    problems = [plain(problem) for problem in audit.findings.problems]
    return Validation(status=audit.findings.status, problems=problems, computed=dict(audit.computed))


@dataclass(frozen=True)
class Audit:
    """What one report amounts to."""

    findings: Findings
    computed: Mapping[str, JsonValue]


def hold_audit(
    report: AuditReport,
    contract: AuditContract,
    tasks: Rows[GeneratedTask],
    evaluation: Rows[EvaluationItem],
    *,
    require_comparison: bool = True,
) -> Audit:
    """The same as `validate`, for documents that are read already."""
    findings = Findings()
    for read in (report, contract, tasks, evaluation):
        findings.add(read.findings)
    if contract.comparison is None:
        miss_strategy(findings, require_comparison=require_comparison)
    if tasks.rows is None:
        return Audit(findings, {})
    accepted = [task for task in tasks.rows if task.disposition is Disposition.ACCEPTED]
    computed: dict[str, JsonValue] = {
        "counts": _check_counts(report, tasks.rows, findings),
        "sample_size": _check_sample(report, contract, accepted, findings),
    }
    if contract.comparison is not None and report.samples is not None:
        computed["label_errors"] = _check_answers(report, contract, contract.comparison, accepted, findings)
    if evaluation.rows is not None:
        computed |= _check_overlap(report, contract, accepted, evaluation.rows, findings)
    return Audit(findings, computed)


def miss_strategy(findings: Findings, *, require_comparison: bool = True) -> None:
    expected, action = f"one of {', '.join(AnswerComparison)}", "Save a version of the spec that says how to compare."
    rule, found = ("R-194", "none of them") if require_comparison else ("R-19A", "none of them: no label was compared")
    findings.miss(rule, "generation_audit.answer_comparison", expected, found, action)


def _check_counts(report: AuditReport, tasks: Sequence[GeneratedTask], findings: Findings) -> dict[str, int]:
    by_disposition = Counter(task.disposition for task in tasks)
    counts = {
        "generated": len(tasks),
        "accepted": by_disposition[Disposition.ACCEPTED],
        "rejected": by_disposition[Disposition.REJECTED],
        "execution_errors": by_disposition[Disposition.EXECUTION_ERROR],
    }
    for name, reported in report.counts.items():
        if reported != counts[name]:
            _false_count(f"counts.{name}", counts[name], reported, findings)
    twice = [item_id for item_id, count in Counter(task.item_id for task in tasks).items() if count > 1]
    if twice:
        path, action = "generation_audit.dataset_file", "Freeze a new dataset in which each task has an id of its own."
        findings.contradict("R-191", path, "a different item_id in each row", f"{show_names(twice)} twice", action)
    return counts


def _check_sample(
    report: AuditReport, contract: AuditContract, accepted: Sequence[GeneratedTask], findings: Findings
) -> int:
    """The size of the sample."""
    size = min(len(accepted), contract.sample_size)
    if not size:
        action = "There is nothing to train on, or the rows do not say what was accepted."
        findings.miss("R-193", "generation_audit.dataset_file", "at least one accepted task", "none", action)
    if report.samples is not None and report.seed is not None:
        selected = sorted((task.item_id for task in accepted), key=_ranking(report.seed))[:size]
        _compare_samples(report.samples, selected, report.seed, findings)
    return size


def _compare_samples(samples: Sequence[AuditSample], selected: Sequence[str], seed: int, findings: Findings) -> None:
    action = "Audit the tasks that select_sample gives for the reported seed, all of them and no others."
    wanted, seen = frozenset(selected), set[str]()
    for sample in samples:
        if sample.item_id in seen or sample.item_id not in wanted:
            expected = "each task once" if sample.item_id in seen else f"one of the {len(wanted)} tasks of seed {seed}"
            findings.contradict("R-193", f"{sample.path}.item_id", expected, show(sample.item_id), action)
        seen.add(sample.item_id)
    missing = [item_id for item_id in selected if item_id not in seen]
    if missing:
        expected = f"the {len(wanted)} tasks that seed {seed} selects"
        found = f"all but {len(missing)}: {show_names(missing)}"
        findings.contradict("R-193", "generation_audit.samples", expected, found, action)


def _check_answers(
    report: AuditReport,
    contract: AuditContract,
    comparison: AnswerComparison,
    accepted: Sequence[GeneratedTask],
    findings: Findings,
) -> int:
    """Compares each sampled label with its independent answer; the number of labels that are wrong."""
    by_id = {task.item_id: task for task in accepted}
    sampled = {sample.item_id: sample for sample in report.samples or ()}
    wrong, unknown = [], 0
    for sample in sampled.values():
        task = by_id.get(sample.item_id)
        if task is None:
            continue
        agrees = answer_agreement(task.answer, sample.answer, comparison)
        if agrees is None:
            unknown += 1
            _miss_comparison(sample, task, comparison, findings)
        elif not agrees:
            wrong.append(sample.item_id)
        _refute_copied_code(sample, task, findings)
    reported = report.label_errors
    if reported is not None and not len(wrong) <= reported <= len(wrong) + unknown:
        _false_count("label_error_count", len(wrong), reported, findings)
    if len(wrong) > contract.max_label_errors:
        expected = f"at most {contract.max_label_errors} wrong labels among {len(sampled)} samples"
        found = f"{len(wrong)}: {show_names(wrong)}"
        findings.contradict("R-196", "generation_audit.label_error_count", expected, found, _REPEAT)
    return len(wrong)


def _miss_comparison(
    sample: AuditSample, task: GeneratedTask, comparison: AnswerComparison, findings: Findings
) -> None:
    expected = f"an answer and a label that {comparison} can compare"
    found = f"the answer {show(sample.answer)} and the label {show(task.answer)}"
    action = "Write both in the form that the spec's label contract asks for."
    findings.miss("R-197", f"{sample.path}.independent_answer", expected, found, action)


def _refute_copied_code(sample: AuditSample, task: GeneratedTask, findings: Findings) -> None:
    """A program that ran is no second opinion on itself (R-198)."""
    code, reasoning = " ".join((task.code or "").split()), " ".join((sample.reasoning or "").split())
    if len(code) >= _TELLING_CODE and code in reasoning:
        action = "Solve the task again from its text alone."
        findings.contradict(
            "R-198", f"{sample.path}.reasoning", "a solution of its own", "the generator's code", action
        )


def _check_overlap(
    report: AuditReport,
    contract: AuditContract,
    accepted: Sequence[GeneratedTask],
    evaluation: Sequence[EvaluationItem],
    findings: Findings,
) -> dict[str, JsonValue]:
    held_out = {prompt_key(item.prompt) for item in evaluation}
    found = find_overlap(((task.item_id, task.prompt) for task in accepted), held_out)
    if report.overlaps not in (None, found["overlap_count"]):
        _false_count("overlap_count", found["overlap_count"], report.overlaps, findings)
    if report.duplicates not in (None, found["duplicate_count"]):
        _false_count("duplicate_count", found["duplicate_count"], report.duplicates, findings)
    if found["overlap_count"] > contract.max_eval_overlaps:
        expected = f"at most {contract.max_eval_overlaps} accepted tasks that stand in the evaluation set"
        ids = f"{found['overlap_count']}: {show_names(found['overlap_ids'])}"
        findings.contradict("R-196", "generation_audit.overlap_count", expected, ids, _REPEAT)
    return {
        "overlaps": found["overlap_count"],
        "overlap_ids": found["overlap_ids"][:MAX_PROBLEMS],
        "duplicates": found["duplicate_count"],
        "duplicate_ids": found["duplicate_ids"][:MAX_PROBLEMS],
    }


def _false_count(name: str, counted: int, reported: int | None, findings: Findings) -> None:
    action = "Report what the frozen files and the independent answers amount to."
    findings.contradict("R-197", f"generation_audit.{name}", f"{counted}", f"{reported}", action)
