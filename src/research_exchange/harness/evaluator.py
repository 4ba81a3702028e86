"""The frozen evaluator: one prompt, one decoding, one grader and one list of items, under one id (R-130 to R-136)."""

import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinker import SamplingClient
from tinker.types import ModelInput, SampledSequence, SamplingParams

from research_exchange.documents.evaluation import evaluator_id
from research_exchange.harness.scores import Answer, ArmScore


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
    """Greedy exact match over a fixed list of items.

    Whatever could change a score is in `provenance`, and so in `id`: freeze it before any arm is scored, and score
    every compared arm with the same one. The model that is scored is deliberately not part of it (R-131).
    """

    metric: str
    items: tuple[Item, ...]
    prompt_template: str
    """Text with one `{question}`."""
    parser: Callable[[str], str]
    """From a completion to the answer that is compared with the reference; its source is part of the identity."""
    max_tokens: int
    stop: tuple[str, ...] = ()
    """Texts that end a completion; without any, the model's own end of sequence does."""

    @property
    def provenance(self) -> dict[str, Any]:
        """Everything a score depends on besides the model (R-131)."""
        return {
            "code_sha256": self._code_sha256(),
            "prompt_template": self.prompt_template,
            "decoding": {"temperature": 0, "max_tokens": self.max_tokens, "stop": list(self.stop)},
            "parser": self.parser.__name__,
            "items": {"ids": [item.id for item in self.items]},
        }

    @property
    def id(self) -> str:
        """sha256 of the canonical provenance (R-132)."""
        return evaluator_id(self.provenance)

    def prompt(self, question: str) -> str:
        return self.prompt_template.format(question=question)

    def score(
        self, sampler: SamplingClient, tokenizer: Any, *, arm: str, seed: int, checkpoint: str | None = None
    ) -> ArmScore:
        """Ask every item once and grade the answers; an answer that cannot be parsed stays, with value 0 (R-134).

        `checkpoint` says which weights `sampler` serves; it goes into the prediction rows.
        """
        decoding = SamplingParams(temperature=0.0, max_tokens=self.max_tokens, stop=list(self.stop) or None)
        prompts = [ModelInput.from_ints(tokenizer.encode(self.prompt(item.question))) for item in self.items]
        pending = [sampler.sample(prompt, num_samples=1, sampling_params=decoding) for prompt in prompts]
        answers = [
            self._grade(item, tokenizer, future.result().sequences[0])
            for item, future in zip(self.items, pending, strict=True)
        ]
        return ArmScore(arm, seed, self.metric, self.id, tuple(answers), checkpoint)

    def _grade(self, item: Item, tokenizer: Any, sequence: SampledSequence) -> Answer:
        completion: str = tokenizer.decode(sequence.tokens)
        prediction = self.parser(completion)
        return Answer(item.id, completion, prediction, item.reference, int(prediction == item.reference))

    def _code_sha256(self) -> str:
        """Of the parser's source and of this module, which samples and compares."""
        sources = [inspect.getsource(self.parser), inspect.getsource(sys.modules[__name__])]
        return hashlib.sha256("\n".join(sources).encode()).hexdigest()
