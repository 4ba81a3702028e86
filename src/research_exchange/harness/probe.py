"""The preflight probe: can each arm's client be created, and does it take one step on one example?

Before any arm trains. A refusal (HTTP 400) means a fork or a stop as failed and incomplete; an optimizer is never
swapped for another one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import tinker
from tinker.types import Datum, ModelInput, OptimParams, TensorData

from research_exchange.client import Run

__all__ = ["REFUSALS", "Probe", "ProbedArm", "probe_arms"]

REFUSALS = (tinker.BadRequestError, tinker.UnprocessableEntityError, tinker.RequestFailedError)
"""How a service says that it will not do what it is asked, now or ever."""
_LABEL = "preflight-probe"


@dataclass(frozen=True)
class ProbedArm:
    """What an arm needs to take a step."""

    create: Callable[[], tinker.TrainingClient]
    """On the probe's own service."""
    params: OptimParams


@dataclass(frozen=True)
class Probe:
    """How it went with one arm."""

    arm: str
    works: bool
    optimizer: str | None = None
    """The family that the service names."""
    applied: Mapping[str, float] | None = None
    """What the service says of the step."""
    refusal: str | None = None
    """Why it does not work, in the service's words."""


def probe_arms(run: Run, arms: Mapping[str, ProbedArm], *, example: Sequence[int]) -> list[Probe]:
    """Try every arm, retain what the service said and return it, in the order of the arms.

    The clients are of no use afterwards: give them a service of their own, and close it before the arms start (R-205).
    Trouble that is no refusal, such as a service that is away, is raised as it is. A run that was interrupted probes
    anew, and what it finds then is one more file: the service need not say the same again, to the last bit of a norm.

    Args:
        example: The tokens of the one sequence to learn from, two or more.
    """
    probes = [_try(name, arm, example) for name, arm in arms.items()]
    rows = "".join(json.dumps(asdict(probe)) + "\n" for probe in probes)
    earlier = sum(file["name"].startswith(_LABEL) for file in run.record()["evidence"])
    run.evidence(f"{_LABEL}-{earlier + 1}.jsonl" if earlier else f"{_LABEL}.jsonl", "probe", rows)
    return probes


def _try(name: str, arm: ProbedArm, example: Sequence[int]) -> Probe:
    try:
        client = arm.create()
        client.forward_backward([_datum(example)], "cross_entropy").result()
        applied = client.optim_step(arm.params).result().metrics
    except REFUSALS as refused:
        return Probe(name, works=False, refusal=str(refused))
    info = client.get_info()
    is_told = "optimizer_config" in info.model_fields_set
    return Probe(name, works=True, optimizer=info.optimizer_config.type if is_told else None, applied=applied)


def _datum(tokens: Sequence[int]) -> Datum:
    return Datum(
        model_input=ModelInput.from_ints(list(tokens[:-1])),
        loss_fn_inputs={
            "target_tokens": TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64)),
            "weights": TensorData.from_numpy(np.ones(len(tokens) - 1, dtype=np.float32)),
        },
    )
