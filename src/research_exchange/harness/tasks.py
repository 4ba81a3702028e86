"""What a policy gradient is trained on and asked about: problems, prompt, decoding and grader, under one name.

`task_named` gives the two that the experiments use. A script that can do the one can do the other: GSM8K is what an
experiment is about, and sums are what a model learns that is too small for it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from research_exchange.harness import gsm8k
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.evaluator import QUESTION, Evaluator, Item
from research_exchange.harness.grading import numeric_answer

__all__ = ["TASKS", "Task", "first_line", "task_named"]

METRIC = "accuracy"
SUM_PROMPT = "1+2=3\n7+8=15\n12+6=18\n{question}="
"""Three solved sums show the form; the answer is the rest of the line."""
WORD_PROBLEM_PROMPT = (
    "Solve the problem step by step. Write the answer as a number after #### in the last line.\n\n"
    "Problem: {question}\n\nSolution:"
)


@dataclass(frozen=True)
class Task:
    """Problems with one way to ask and to grade them; training and evaluation share no problem."""

    name: str
    training: tuple[Item, ...]
    """In a fixed order."""
    evaluation: tuple[Item, ...]
    prompt_template: str
    """Text with one `{question}`."""
    max_tokens: int
    """Of an answer."""
    stop: tuple[str, ...]
    """Texts that end an answer."""
    parser: Callable[[str], str]
    """From a completion to the answer that is compared with a problem's reference."""
    sources: tuple[Mapping[str, Any], ...] = ()
    """What was loaded, for the effective config; nothing where the problems follow from this module."""

    def prompt(self, problem: Item) -> str:
        return self.prompt_template.replace(QUESTION, problem.question)

    def reward(self, completion: str, problem: Item) -> float:
        """1 for the right answer, 0 for any other and for none: what the evaluator gives."""
        return float(self.parser(completion) == problem.reference)

    def evaluator(self) -> Evaluator:
        """Greedy exact match on the problems that are held out."""
        return Evaluator(
            metric=METRIC,
            items=self.evaluation,
            prompt_template=self.prompt_template,
            parser=self.parser,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )

    def record(self) -> dict[str, Any]:
        """What the task is, for the effective config."""
        return {
            "name": self.name,
            "training_items": len(self.training),
            "evaluation_items": len(self.evaluation),
            "prompt_template": self.prompt_template,
            "max_tokens": self.max_tokens,
            "stop": list(self.stop),
            "parser": self.parser.__name__,
            "sources": [dict(source) for source in self.sources],
        }


def task_named(name: str, *, evaluation: int, max_tokens: int | None = None, gsm8k_folder: Path | None = None) -> Task:
    """A task by its name, with so many problems held out.

    Args:
        name: `arithmetic`, sums a+b with a < 100 and b < 10, which it generates; or `gsm8k`, with the training split to
            train on and the first problems of the test split held out.
        max_tokens: Of an answer; None for the task's own.
        gsm8k_folder: Where `train.jsonl` and `test.jsonl` lie, see `gsm8k.load`; None to download them.

    Raises:
        HarnessError: if there is no such task, it has not so many problems, or they cannot be loaded.
    """
    if name not in TASKS:
        raise HarnessError(f"There is no task {name!r}; name one of {', '.join(TASKS)}.")
    task = TASKS[name](evaluation, gsm8k_folder)
    return task if max_tokens is None else replace(task, max_tokens=max_tokens)


def first_line(completion: str) -> str:
    """The answer in a completion: everything up to the end of the line, exactly as it stands."""
    return completion.split("\n", 1)[0]


def _arithmetic(evaluation: int, _: Path | None) -> Task:
    """All 1000 sums in a fixed random order; the first are held out."""
    sums = [Item(f"{a}+{b}", f"{a}+{b}", str(a + b)) for a in range(100) for b in range(10)]
    random.Random("addition").shuffle(sums)
    _must_leave(evaluation, len(sums) - 1, "arithmetic")
    return Task(
        name="arithmetic",
        training=tuple(sums[evaluation:]),
        evaluation=tuple(sums[:evaluation]),
        prompt_template=SUM_PROMPT,
        max_tokens=4,
        stop=("\n",),
        parser=first_line,
    )


def _gsm8k(evaluation: int, folder: Path | None) -> Task:
    """The training split in a fixed random order, and the first problems of the test split in theirs."""
    train, test = gsm8k.load("train", folder), gsm8k.load("test", folder)
    training = list(train.items)
    random.Random("gsm8k").shuffle(training)
    _must_leave(evaluation, len(test.items), "the test split of gsm8k")
    return Task(
        name="gsm8k",
        training=tuple(training),
        evaluation=test.items[:evaluation],
        prompt_template=WORD_PROBLEM_PROMPT,
        max_tokens=512,
        stop=("\n\nProblem:",),
        parser=numeric_answer,
        sources=(train.record(), test.record()),
    )


def _must_leave(asked: int, most: int, where: str) -> None:
    if not 1 <= asked <= most:
        raise HarnessError(f"{where} can hold out 1 to {most} problems; asked for {asked}.")


TASKS: Mapping[str, Callable[[int, Path | None], Task]] = {"arithmetic": _arithmetic, "gsm8k": _gsm8k}
"""Name to what builds it from the number of problems held out and the folder of GSM8K."""
