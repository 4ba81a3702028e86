"""The audit of generated training data: a sample is solved again, blindly, before anything is trained on it (§17).

    solve = sampling_solver(sampler, tokenizer, prompt_template="{question}", parser=numeric_answer, max_tokens=512)
    audited = audit_generated(run, tasks, held_out(evaluator.items), solve, resolver_id="Qwen/Qwen3-8B, greedy", seed=0)
    if audited.may_go_on: ...train...

Which tasks are solved again, what counts as the same answer and what is an overlap is decided by the rules
(`research_exchange.generation_audit`). A solver is handed prompts and nothing else: it cannot see a label.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinker import SamplingClient
from tinker.types import ModelInput, SamplingParams

from research_exchange.client import GateReading, Run
from research_exchange.documents.generated_tasks import Disposition
from research_exchange.documents.generation_audit import parse_contract
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Spec
from research_exchange.generation_audit import answer_agreement, evaluation_overlap, select_sample
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.evaluator import QUESTION, Item
from research_exchange.harness.rows import jsonl

__all__ = ["Solution", "Solver", "audit_generated", "held_out", "sampling_solver"]

Rows = Sequence[Mapping[str, JsonValue]]


@dataclass(frozen=True)
class Solution:
    """What an independent solver made of one prompt."""

    answer: JsonValue
    """In the form that the spec's `answer_comparison` compares."""
    reasoning: str
    """How it got there, in its own words."""


Solver = Callable[[Sequence[str]], Sequence[Solution]]
"""Solves prompts, one solution for each."""


def sampling_solver(
    sampler: SamplingClient,
    tokenizer: Any,
    *,
    prompt_template: str,
    parser: Callable[[str], JsonValue],
    max_tokens: int,
    stop: Sequence[str] = (),
) -> Solver:
    """A model that solves greedily; its words are the reasoning. Take another one than the generator (R-198).

    Args:
        prompt_template: Text with one `{question}`.
        parser: From a completion to the answer.
    """
    decoding = SamplingParams(temperature=0.0, max_tokens=max_tokens, stop=list(stop) or None)

    def solve(prompts: Sequence[str]) -> list[Solution]:
        asked = [ModelInput.from_ints(tokenizer.encode(prompt_template.replace(QUESTION, each))) for each in prompts]
        pending = [sampler.sample(each, num_samples=1, sampling_params=decoding) for each in asked]
        completions = [tokenizer.decode(future.result().sequences[0].tokens) for future in pending]
        return [Solution(parser(completion), completion) for completion in completions]

    return solve


def held_out(items: Iterable[Item]) -> list[dict[str, JsonValue]]:
    """Evaluation items as the rows that tasks are held against."""
    return [{"item_id": item.id, "prompt": item.question} for item in items]


def audit_generated(
    run: Run, tasks: Rows, evaluation: Rows, solve: Solver, *, resolver_id: str, seed: int
) -> GateReading:
    """Freeze the files, have the sample solved again, report, and ask the Exchange for its reading.

    Every file is named after its bytes, so a repaired dataset is audited again by the same call (R-199).

    Args:
        tasks: Every candidate with `item_id`, `prompt`, `answer` and `disposition` (R-191), rejected ones included.
        evaluation: The full evaluation set with `item_id` and `prompt`.
        solve: See `Solver`.
        resolver_id: Who solved: a model and its decoding, or a person.
        seed: Selects the sample (R-193).

    Returns:
        The reading of the gate; training waits until it says `passed`.

    Raises:
        HarnessError: if the solver leaves out a prompt.
    """
    contract = Spec.parse(run.spec_bytes()).section("generation_audit")
    dataset_file = _freeze(run, "generated-tasks", "jsonl", "generated_tasks", jsonl(tasks))
    evaluation_file = _freeze(run, "evaluation-set", "jsonl", "generated_tasks", jsonl(evaluation))
    sample = select_sample(tasks, parse_contract(contract).sample_size, seed)
    solutions = solve([str(task["prompt"]) for task in sample])
    if len(solutions) != len(sample):
        raise HarnessError(f"The solver gave {len(solutions)} solutions to {len(sample)} prompts; it owes one to each.")
    agreement = [
        answer_agreement(task["answer"], solution.answer, contract.get("answer_comparison"))
        for task, solution in zip(sample, solutions, strict=True)
    ]
    overlap = evaluation_overlap(tasks, evaluation)
    report: dict[str, Any] = {
        "version": 1,
        "stage": "before_training",
        "dataset_file": dataset_file,
        "evaluation_file": evaluation_file,
        "sample_seed": seed,
        "counts": _counts(tasks),
        "samples": [
            {
                "item_id": task["item_id"],
                "independent_answer": solution.answer,
                "resolver_id": resolver_id,
                "method": "independent_resolve",
                "reasoning": solution.reasoning,
                "blind_to_label": True,
            }
            for task, solution in zip(sample, solutions, strict=True)
        ],
        "label_error_count": agreement.count(False),
        "overlap_count": overlap["overlap_count"],
        "duplicate_count": overlap["duplicate_count"],
    }
    details = {"overlap": overlap, "agreement": {str(t["item_id"]): a for t, a in zip(sample, agreement, strict=True)}}
    audit = json.dumps({**report, "details": details}, indent=2, allow_nan=False).encode()
    audit_file = _freeze(run, "generation-audit", "json", "report", audit)
    run.update(generation_audit={**report, "audit_file": audit_file})
    return run.gate("generation_audit")


def _freeze(run: Run, label: str, ending: str, kind: str, content: bytes) -> str:
    return run.evidence(f"{label}-{hashlib.sha256(content).hexdigest()[:12]}.{ending}", kind, content).name


def _counts(tasks: Rows) -> dict[str, int]:
    of = [task.get("disposition") for task in tasks]
    return {
        "generated": len(of),
        "accepted": of.count(Disposition.ACCEPTED),
        "rejected": of.count(Disposition.REJECTED),
        "execution_errors": of.count(Disposition.EXECUTION_ERROR),
    }
