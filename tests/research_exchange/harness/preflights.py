"""Data, losses and specs that the tests of the preflights share."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tinker
import torch
from tinker.types import AdamParams, Datum, ModelInput, TensorData

from research_exchange.client import Run
from research_exchange.harness.service import service_client
from tests.research_exchange.client.serving import ServedExchange
from tests.servers import MODEL, SpindleServer

RANK = 4
FEATURES = {
    "custom_loss": False,
    "custom_optimizer": False,
    "paired_comparison": False,
    "paired_training_arms": False,
    "checkpoint_restore": False,
    "warmup_adaptation": False,
    "generated_training_data": False,
    "learned_generator": False,
    "heldout_loss": False,
    "adaptive_selection": False,
}


def start_run(served: ServedExchange, *, features: tuple[str, ...] = (), **sections: Any) -> Run:
    """A run of a spec with two trained arms that declares these features and has these sections."""
    spec = {
        "title": "A spec for the tests of the preflights",
        "hypothesis": "One thing is better than the other.",
        "method": "Two arms are trained alike.",
        "success_criterion": "None: only its preflights are of interest.",
        "base_model": MODEL,
        "steps": 4,
        "eval": {"n_examples": 10},
        "budget": {"gpu_hours": 1, "max_wall_minutes": 10},
        "primary_endpoint": "accuracy",
        "arms": [{"name": "one", "steps": 4}, {"name": "other", "steps": 4}],
        "experiment_features": {**FEATURES, **dict.fromkeys(features, True)},
        **sections,
    }
    exchange = served.connect()
    return exchange.create_run(exchange.register(json.dumps(spec).encode(), legacy=True))


def datum(length: int, seed: int) -> Datum:
    """A random sequence with what importance sampling takes, sampled by a policy that is somewhat off."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(1, 200, length + 1)
    advantages = np.where(np.arange(length) < length // 2, 0.0, draw.normal(size=length))
    return Datum(
        model_input=ModelInput.from_ints(tokens[:-1].tolist()),
        loss_fn_inputs={
            "target_tokens": TensorData.from_numpy(tokens[1:]),
            "logprobs": TensorData.from_numpy((-5.5 + 0.2 * draw.normal(size=length)).astype(np.float32)),
            "advantages": TensorData.from_numpy(advantages.astype(np.float32)),
        },
    )


DATA = [datum(length, seed) for seed, length in enumerate((5, 9, 14))]


def scored(data: list[Datum]) -> list[Datum]:
    """The same sequences as `cross_entropy` takes them, every target with weight 1."""
    return [
        Datum(
            model_input=each.model_input,
            loss_fn_inputs={
                "target_tokens": each.loss_fn_inputs["target_tokens"],
                "weights": TensorData.from_numpy(np.ones(len(each.loss_fn_inputs["target_tokens"].data), np.float32)),
            },
        )
        for each in data
    ]


def spindle_client(server: SpindleServer) -> Callable[[], tinker.ServiceClient]:
    """What connects a preflight to a test's server."""
    return partial(service_client, base_url=server.url, api_key=server.key)


def moved(service: tinker.ServiceClient) -> str:
    """A checkpoint of an adapter that was trained a little, so that no half of it is zero."""
    client = service.create_lora_training_client(MODEL, rank=RANK, seed=3).result()
    for _ in range(2):
        client.forward_backward(DATA, "importance_sampling")
        client.optim_step(AdamParams(learning_rate=1e-2)).result()
    path: str = client.save_state("moved").result().path
    return path


def importance_sampling(
    data: list[Datum], logprobs: list[torch.Tensor], *, strength: float = 1.0
) -> tuple[torch.Tensor, dict[str, float]]:
    """The stock loss as a custom one; `strength` raises the ratio to a power, which is the treatment."""
    loss = torch.zeros(())
    for each, learned in zip(data, logprobs, strict=True):
        sampled, advantages = (torch.tensor(each.loss_fn_inputs[name].data) for name in ("logprobs", "advantages"))
        loss = loss - ((strength * (learned - sampled)).exp() * advantages).sum()
    return loss, {}
