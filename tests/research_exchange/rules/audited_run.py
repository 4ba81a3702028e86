"""A run that trains on generated tasks and audits them first, with the files that its audit names."""

import json
from typing import Any

from research_exchange.documents import EvidenceFile, EvidenceLost, GateResult
from research_exchange.generation_audit import select_sample
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.support import file_of, spec_of, updates_of, vectors

__all__ = [
    "BASE",
    "CONTRACT",
    "EVALUATION",
    "FILES",
    "REPORT",
    "SPEC",
    "TASKS",
    "TRAINED",
    "flags",
    "gate",
    "judged",
    "kept",
    "lines",
    "report_on",
    "rules",
    "running",
    "unread",
]

BASE = vectors("generation_audits")["base"]
CONTRACT, REPORT, TASKS, EVALUATION = (BASE[name] for name in ("contract", "report", "tasks", "evaluation"))
SPEC = {
    "title": "Training on generated sums",
    "experiment_features": {"generated_training_data": True},
    "generation_audit": CONTRACT,
    "arms": [{"name": "generated", "steps": 40}, {"name": "untouched", "steps": 0}],
}


def lines(name: str, rows: list[Any], update: int | None = 1) -> EvidenceFile:
    return file_of(name, "generated_tasks", "".join(json.dumps(row) + "\n" for row in rows), update)


def kept(name: str = "audit.json", report: Any = REPORT, update: int | None = 1) -> EvidenceFile:
    return file_of(name, "report", json.dumps(report), update)


FILES = [lines("tasks.jsonl", TASKS), lines("evaluation.jsonl", EVALUATION), kept()]
TRAINED: dict[str, Any] = {"status": "running", "completed_arms": ["generated"]}


def running(report: Any, **more: Any) -> dict[str, Any]:
    return {"status": "running", "generation_audit": report, **more}


def judged(updates: list[Any], files: list[EvidenceFile], spec: Any = SPEC) -> Judgment:
    return judge(spec_of(spec), updates_of(updates), files)


def gate(updates: list[Any], files: list[EvidenceFile] = FILES, spec: Any = SPEC) -> GateResult:
    return judged(updates, files, spec).gate("generation_audit")


def rules(result: GateResult) -> set[str]:
    return {problem.rule for problem in result.problems}


def flags(judgment: Judgment) -> set[str]:
    return {flag.rule for flag in judgment.flags}


def report_on(tasks: list[Any], answers: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An audit of some tasks that counts right, and answers every sampled task with its label, or as told."""
    told = answers or {}
    accepted = [task for task in tasks if task["disposition"] == "accepted"]
    size, seed = min(len(accepted), CONTRACT["min_sample_size"]), more.get("sample_seed", 0)
    selected: list[Any] = list(select_sample(accepted, size, seed))
    samples = [
        {
            **REPORT["samples"][0],
            "item_id": task["item_id"],
            "independent_answer": told.get(task["item_id"], task["answer"]),
            "reasoning": f"Counted {task['item_id']} on fingers.",
        }
        for task in selected
    ]
    dispositions = [task["disposition"] for task in tasks]
    counts = {
        "generated": len(tasks),
        "accepted": len(accepted),
        "rejected": dispositions.count("rejected"),
        "execution_errors": dispositions.count("execution_error"),
    }
    wrong = sum(task["item_id"] in told for task in selected)
    return {**REPORT, "samples": samples, "counts": counts, "label_error_count": wrong, **more}


def unread() -> bytes:
    raise EvidenceLost("stored bytes that are gone")
