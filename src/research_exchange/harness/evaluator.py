"""The frozen evaluator: one prompt, one decoding, one grader and one list of items, under one id (R-130 to R-136)."""

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from tinker import SamplingClient
from tinker.types import ModelInput, SamplingParams

from research_exchange.documents.evaluation import evaluator_id
from research_exchange.harness import grading
from research_exchange.harness.answers import KeptAnswers
from research_exchange.harness.rows import jsonl
from research_exchange.harness.scores import Answer, ArmScore

__all__ = ["Evaluator", "Item"]

QUESTION = "{question}"
"""Where the question goes in a prompt template."""


@dataclass(frozen=True)
class Item:
    """One held-out question."""

    id: str
    question: str
    """What fills `{question}` in the prompt template."""
    reference: str
    """The right answer, as the parser would return it."""


@dataclass(frozen=True)
class Evaluator:
    """Greedy exact match over a fixed list of items, and further metrics of the same completions.

    Whatever could change a score is in `provenance`, and so in `id`: freeze it before any arm is scored, and score
    every compared arm, and the base model, with the same one. What is scored is deliberately not part of it (R-131).
    """

    metric: str
    items: tuple[Item, ...]
    prompt_template: str
    """Text with one `{question}`; other braces stand for themselves."""
    parser: Callable[[str], str]
    """From a completion to the answer that is compared with the reference; its source is part of the identity."""
    max_tokens: int
    stop: tuple[str, ...] = ()
    """Texts that end a completion; without any, the model's own end of sequence does."""
    further: Mapping[str, Callable[[str, Item], float]] = field(default_factory=dict)
    """Further metrics: name to a grade of a completion; their source is part of the identity."""
    code: tuple[Callable[..., Any] | ModuleType, ...] = ()
    """What parser and grades call, where it is not the harness's own: its source is part of the identity."""
    manifest: str | None = None
    """The name of an evidence file that holds the items, instead of their ids in every update. A decision rule asks for
    the ids (R-145), so this is for specs without one."""

    def __post_init__(self) -> None:
        if self.prompt_template.count(QUESTION) != 1:
            raise ValueError(f"A prompt template has one {QUESTION}; found {self.prompt_template.count(QUESTION)}.")
        if not self.items or len({item.id for item in self.items}) < len(self.items):
            raise ValueError("An evaluator has at least one item, and no id twice.")
        if self.metric in self.further:
            raise ValueError(f"{self.metric} is the exact match already; give the further metric another name.")

    @property
    def provenance(self) -> dict[str, Any]:
        """Everything a score depends on besides the model (R-131)."""
        items = self.manifest_file()
        digest = hashlib.sha256(items).hexdigest()
        return {
            "code_sha256": self._code_sha256(),
            "prompt_template": self.prompt_template,
            "decoding": {"temperature": 0, "max_tokens": self.max_tokens, "stop": list(self.stop)},
            "parser": self.parser.__name__,
            "items": {"manifest_ref": self.manifest, "manifest_sha256": digest}
            if self.manifest is not None
            else {"ids": [item.id for item in self.items]},
            "items_sha256": digest,
            "metrics": [self.metric, *self.further],
        }

    @cached_property
    def id(self) -> str:
        """sha256 of the canonical provenance (R-132)."""
        return evaluator_id(self.provenance)

    def manifest_file(self) -> bytes:
        """The items as JSON lines: id, question and reference, in order."""
        return jsonl({"item_id": item.id, "prompt": item.question, "reference": item.reference} for item in self.items)

    def prompt(self, question: str) -> str:
        return self.prompt_template.replace(QUESTION, question)

    def score(
        self,
        sampler: SamplingClient,
        tokenizer: Any,
        *,
        arm: str,
        seed: int | None,
        checkpoint: str | None = None,
        folder: Path | None = None,
    ) -> ArmScore:
        """Ask every item once and grade the answers; an answer that cannot be parsed stays, with value 0 (R-134).

        Args:
            checkpoint: Which weights `sampler` serves; it goes into the prediction rows.
            folder: Where answers are kept as they come: called again after an interruption, only those that are missing
                are asked for. They are known by arm, seed and checkpoint: name it where an arm has several.
        """
        decoding = SamplingParams(temperature=0.0, max_tokens=self.max_tokens, stop=list(self.stop) or None)
        identity = self.id
        with KeptAnswers(folder, evaluator_id=identity, arm=arm, seed=seed, checkpoint=checkpoint) as kept:
            missing = [item for item in self.items if item.id not in kept.completions]
            prompts = [ModelInput.from_ints(tokenizer.encode(self.prompt(item.question))) for item in missing]
            pending = [sampler.sample(prompt, num_samples=1, sampling_params=decoding) for prompt in prompts]
            for item, future in zip(missing, pending, strict=True):
                kept.add(item.id, tokenizer.decode(future.result().sequences[0].tokens))
        answers = tuple(self._grade(item, kept.completions[item.id]) for item in self.items)
        return ArmScore(arm, seed, self.metric, identity, answers, checkpoint)

    def _grade(self, item: Item, completion: str) -> Answer:
        prediction = self.parser(completion)
        further = {metric: of(completion, item) for metric, of in self.further.items()}
        grade = int(prediction == item.reference)
        return Answer(item.id, completion, prediction, item.reference, grade, further, item.question)

    def _code_sha256(self) -> str:
        """Of the source of the parser, of what it names, and of the modules that sample, compare and read numbers."""
        named = [self.parser, *self.further.values(), *self.code]
        return hashlib.sha256("\n".join(map(_source, [*named, sys.modules[__name__], grading])).encode()).hexdigest()


def _source(code: Callable[..., Any] | ModuleType) -> str:
    try:
        return inspect.getsource(code)
    except (TypeError, OSError):
        raise ValueError(
            f"{code!r} has no source that could be part of an evaluator's identity; write a function in a file."
        ) from None
