"""What the spec says: the plan of both arms, and which problems train, select and confirm."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tinker
from tinker.types import AdamParams

from research_exchange.harness import Evaluator, Item, adamw_client

PROMPT = "3, 8: 8\n41, 17: 41\n5, 62: 62\n{question}:"
"""Three solved problems show the form; the answer is the rest of the line."""
ANSWER_TOKENS = 4
STOP = "\n"
GROUP, RUNNING = "group", "running"


def answer(completion: str) -> str:
    """The rest of the line, without the spaces around it."""
    return completion.partition("\n")[0].strip()


@dataclass(frozen=True)
class Plan:
    """What the spec says, for both arms alike."""

    base_model: str
    lora_rank: int
    optimizer: dict[str, float]
    """Every setting of AdamW but the learning rate, fixed when a client is created."""
    steps: int
    groups_per_batch: int
    group_size: int
    warm_up_batches: int
    """Of the running arm: sampled and graded before its first step, so that it has a baseline; nothing learns there."""
    seed: int

    @classmethod
    def of_spec(cls, spec: dict[str, Any]) -> "Plan":
        running = next(arm for arm in spec["arms"] if arm["name"] == RUNNING)
        group = spec["restoration_preflight"]["groups"][0]
        return cls(
            base_model=spec["base_model"],
            lora_rank=spec["lora_rank"],
            optimizer=group["arms"][0]["optimizer_config"],
            steps=spec["steps"],
            groups_per_batch=running["groups_per_batch"],
            group_size=running["group_size"],
            warm_up_batches=running["warm_up_batches"],
            seed=running["seed"],
        )

    def adamw(self, learning_rate: float) -> AdamParams:
        return AdamParams(learning_rate=learning_rate, **self.optimizer)

    def new_learner(self, service: tinker.ServiceClient) -> tinker.TrainingClient:
        """A client whose optimizer is fixed but for its learning rate."""
        return adamw_client(service, self.base_model, rank=self.lora_rank, seed=self.seed, settings=self.optimizer)


@dataclass(frozen=True)
class Problems:
    """Disjoint parts of all pairs of different numbers below 100, in a fixed random order."""

    selection: tuple[Item, ...]
    confirmation: tuple[Item, ...]
    training: tuple[Item, ...]

    @classmethod
    def of_spec(cls, spec: dict[str, Any]) -> "Problems":
        """The spec lists the ids that select and those that confirm; the rest is for training."""
        everything = {
            f"{a},{b}": Item(f"{a},{b}", f"{a}, {b}", str(max(a, b))) for a in range(100) for b in range(100) if a != b
        }
        lists = spec["decision_rule"]["selection"]
        selection, confirmation = (
            tuple(everything.pop(name) for name in lists[part]["ids"])
            for part in ("selection_items", "confirmation_items")
        )
        rest = list(everything.values())
        random.Random("larger").shuffle(rest)
        return cls(selection, confirmation, tuple(rest))


def evaluator(items: Sequence[Item]) -> Evaluator:
    return Evaluator(
        metric="accuracy",
        items=tuple(items),
        prompt_template=PROMPT,
        parser=answer,
        max_tokens=ANSWER_TOKENS,
        stop=(STOP,),
    )
