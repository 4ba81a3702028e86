"""Uploaded losses: what the SDK's tracer sends gives what the function gives."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tinker.lib.public_interfaces.custom_loss import encode_graph, trace_loss
from torch import Tensor
from torch.fx.node import _get_qualified_name

from spindle.backends.contract import CustomLoss, Datum, ForwardBackward
from spindle.backends.graphs.operations import FUNCTIONS
from tests.spindle.backends import reference, tiny
from tests.spindle.backends.tiny import TinyModel

Fn = Callable[..., tuple[Tensor, Mapping[str, Tensor]]]


def traced(fn: Fn, ranks: Mapping[str, Any]) -> CustomLoss:
    """What the client uploads for a function."""
    handle = trace_loss(fn, ranks, "session")
    graph = encode_graph(handle).model_dump(mode="json")
    return CustomLoss("session:loss:0", handle.name, {i.name: i.rank for i in handle.inputs}, graph)


def _ppo(logprobs: Tensor, q: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    ratio = torch.exp(logprobs - q)
    clipped = torch.clamp(ratio, 0.8, 1.2)
    loss = -torch.minimum(ratio * advantages, clipped * advantages).sum()
    return loss, {"custom/clipped:mean": (ratio != clipped).float().mean(), "custom/kl:sum": (q - logprobs).sum()}


def _sequence(logprobs: Tensor, q: Tensor, mask: Tensor, reward: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    chosen = mask > 0
    x = logprobs[chosen] - q[chosen]
    n = logprobs.shape[0]
    x = x / math.sqrt(n) + 1e-3
    x *= 2
    ratio = x.mean().exp()
    best, where = torch.max(logprobs, dim=0)
    loss = -(ratio * reward) + 0.1 * F.softplus(x).pow(2).sum() + best * 0.5 - 1 / (1 + where)
    return loss, {"custom/length:mean": mask.sum()}


def _wide(logprobs: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    p = logprobs.softmax(dim=-1)
    pair = p @ p.T
    picked = logprobs[:, 0] * weights[..., -1] + logprobs[1:, 1:].sum()
    tall = torch.cat([logprobs, weights], dim=1)
    rest, first = tall[:, 1:], tall.chunk(6, dim=1)[0]
    zeros = torch.zeros(logprobs.size(0), dtype=torch.float32, device=logprobs.device)
    loss = (
        picked.sum() + pair.diagonal().sum() + F.mse_loss(first[:, 0], zeros) + torch.where(rest > 0, rest, 0.0).sum()
    )
    loss = loss - torch.logsumexp(logprobs, dim=-1).mean() + F.huber_loss(logprobs, weights, reduction="sum")
    return loss, {"custom/norm:sum": torch.norm(weights), "custom/big:sum": (logprobs > -math.inf).sum()}


def _ratio_of_two(logprobs: Tensor, q: Tensor, weight: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    difference = (logprobs - q.detach()).clamp(min=-5.0, max=5.0)
    smooth = torch.cumsum(difference, dim=0) / torch.arange(1, logprobs.shape[0] + 1)
    kept = torch.stack([smooth, difference]).amax(dim=0).masked_fill(q < -5.5, 0.0)
    order = torch.argsort(q, descending=True)
    loss = weight * (kept[order] * torch.sigmoid(q)).sum() - F.logsigmoid(kept).mean()
    return loss, {}


def _inputs(names: Mapping[str, int], n: int, seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    draw = np.random.default_rng(seed)
    shapes = {0: (), 1: (n,), 2: (n, 3)}
    found = {name: draw.normal(size=shapes[rank]).astype(np.float32) for name, rank in names.items()}
    for name, values in found.items():
        if name == "q":
            found[name] = values - 4
        if name == "mask":
            found[name] = (np.arange(n) >= n // 2).astype(np.float32)
    return found


CASES: list[tuple[Fn, dict[str, int]]] = [
    (_ppo, {"logprobs": 1, "q": 1, "advantages": 1}),
    (_sequence, {"logprobs": 1, "q": 1, "mask": 1, "reward": 0}),
    (_wide, {"logprobs": 2, "weights": 2}),
    (_ratio_of_two, {"logprobs": 1, "q": 1, "weight": 0}),
]


@pytest.mark.parametrize(("fn", "ranks"), CASES, ids=[fn.__name__ for fn, _ in CASES])
def test_a_traced_loss_gives_what_its_function_gives(llama: TinyModel, fn: Fn, ranks: dict[str, int]) -> None:
    custom = traced(fn, ranks)
    backend = llama.backend()
    backend.check_custom_loss(custom)
    tiny.create(backend, llama)
    others = {name: rank for name, rank in ranks.items() if name != "logprobs"}
    data = []
    for n in (9, 21):
        shape = (n,) if ranks["logprobs"] == 1 else (n, 3)
        targets = np.random.default_rng(n).integers(0, tiny.VOCABULARY, shape)
        data.append(Datum(tiny.tokens(n), {"target_tokens": targets, **_inputs(others, n, seed=n)}))
    metrics: list[Mapping[str, Tensor]] = []

    def directly(logprobs: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        loss, measured = fn(logprobs, *(inputs[name] for name in others))
        metrics.append(measured)
        return loss

    expected = reference.evaluate(llama, backend, data, directly)
    result = tiny.train(backend, ForwardBackward("m", data, "custom", custom=custom))
    assert result.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5, abs=1e-4)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)
    for name in metrics[0]:
        values = [float(measured[name].detach()) for measured in metrics]
        mean = sum(values) / (len(values) if name.endswith(":mean") else 1)
        assert result.metrics[name] == pytest.approx(mean, rel=1e-4), name
    for output, logprobs in zip(result.outputs, expected.logprobs, strict=True):
        np.testing.assert_allclose(output["logprobs"], logprobs, atol=1e-5)


def test_every_function_is_known_by_the_name_that_the_tracer_gives_it() -> None:
    public = {"torch.nn.functional.": F, "torch.": torch, "math.": math, "operator.": operator}
    for name in FUNCTIONS:
        if name == "getattr" or "._" in name or name.startswith("torch.functional."):
            continue
        prefix = next(prefix for prefix in public if name.startswith(prefix))
        function = getattr(public[prefix], name.removeprefix(prefix))
        spelled = _get_qualified_name(function)
        spelled = "operator." + spelled.removeprefix("_operator.") if spelled.startswith("_operator.") else spelled
        assert spelled in FUNCTIONS, name
