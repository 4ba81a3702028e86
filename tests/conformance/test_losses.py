"""Every loss through the stock SDK: its sum, recomputed from the log-probabilities that came back, and its errors."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tinker
import torch
from tinker import types

from tests.conformance.data import TEXT, logprobs, supervised, tensor
from tests.conformance.test_training_loop import ADAM
from tests.servers import MODEL

Array = np.ndarray[Any, Any]
COUNT = len(TEXT) - 1
DRAW = np.random.default_rng(5)
ADVANTAGES = DRAW.normal(size=COUNT)
SHIFT = DRAW.normal(scale=0.4, size=COUNT)
"""What the sampler's log-probabilities differ by from the learner's."""
MASK = (np.arange(COUNT) >= 4).astype(float)


def policy_datum(learner: Array, **more: Array) -> types.Datum:
    """Advantages, and a sampler that was `SHIFT` away from the learner."""
    inputs = {"logprobs": learner - SHIFT, "advantages": ADVANTAGES, **more}
    return types.Datum(
        model_input=types.ModelInput.from_ints(TEXT[:-1]),
        loss_fn_inputs={"target_tokens": tensor(TEXT[1:], np.int64)}
        | {name: tensor(values.tolist(), np.float32) for name, values in inputs.items()},
    )


def clipped(ratio: Array, low: float, high: float) -> float:
    return float(-np.minimum(ratio * ADVANTAGES, np.clip(ratio, low, high) * ADVANTAGES).sum())


def gspo(learner: Array, low: float, high: float) -> float:
    """The ratio of the whole sequence, the geometric mean over its mask."""
    ratio = np.exp((SHIFT * MASK).sum() / MASK.sum())
    return clipped(np.full(COUNT, ratio), low, high)


RATIO = np.exp(SHIFT)
EXPECTED: dict[str, tuple[str, dict[str, float] | None, Callable[[Array], float]]] = {
    "importance_sampling": ("importance_sampling", None, lambda _: float(-(RATIO * ADVANTAGES).sum())),
    "ppo": ("ppo", None, lambda _: clipped(RATIO, 0.8, 1.2)),
    "ppo-wide": (
        "ppo",
        {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05},
        lambda _: clipped(RATIO, 0.5, 1.05),
    ),
    "cispo": ("cispo", None, lambda lp: float(-(np.clip(RATIO, 0.0, 4.0) * lp * ADVANTAGES).sum())),
    "cispo-narrow": (
        "cispo",
        {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
        lambda lp: float(-(np.clip(RATIO, 0.8, 1.2) * lp * ADVANTAGES).sum()),
    ),
    "dro": ("dro", {"beta": 0.05}, lambda lp: float(-(lp * ADVANTAGES - 0.025 * SHIFT**2).sum())),
    "gspo": ("gspo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}, lambda lp: gspo(lp, 0.9, 1.1)),
}


@pytest.fixture(scope="module")
def client(server: Any) -> Any:
    """One model for the tests here; none of them steps it."""
    with tinker.ServiceClient(base_url=server.url, api_key=server.key) as service:
        yield service.create_lora_training_client(base_model=MODEL, rank=4, seed=1).result(60)


@pytest.mark.parametrize("case", EXPECTED)
def test_the_sum_is_that_of_the_formula(client: tinker.TrainingClient, case: str) -> None:
    loss, config, formula = EXPECTED[case]
    learner = logprobs(client.forward([supervised()], "cross_entropy").result(60))[0].astype(float)
    more = {"sequence_ratio_mask": MASK} if loss == "gspo" else {}
    result = client.forward_backward([policy_datum(learner, **more)] * 2, loss, config).result(60)  # type: ignore[arg-type]
    assert [values.tolist() for values in logprobs(result)] == [pytest.approx(learner.tolist(), abs=1e-5)] * 2
    assert result.metrics["loss:sum"] == pytest.approx(2 * formula(learner), rel=1e-4, abs=1e-4)
    assert all(name.count(":") == 1 for name in result.metrics)
    forward = client.forward([policy_datum(learner, **more)] * 2, loss, config).result(60)  # type: ignore[arg-type]
    assert forward.metrics["loss:sum"] == pytest.approx(result.metrics["loss:sum"], rel=1e-5)


def test_weights_may_be_any_numbers(client: tinker.TrainingClient) -> None:
    datum = supervised()
    weights = DRAW.normal(size=COUNT)
    datum.loss_fn_inputs["weights"] = tensor(weights.tolist(), np.float32)
    result = client.forward_backward([datum], "cross_entropy").result(60)
    assert result.metrics["loss:sum"] == pytest.approx(-float(logprobs(result)[0] @ weights), rel=1e-4)


def many_targets(sparse: bool) -> types.Datum:
    """Two targets at each place; the second of them is silent in the first half."""
    targets = torch.tensor([[token, (token + 1) % 100] for token in TEXT[1:]])
    weights = torch.ones(COUNT, 2)
    weights[: COUNT // 2, 1] = 0.0
    targets[: COUNT // 2, 1] = 0
    convert = types.TensorData.from_torch_sparse if sparse else types.TensorData.from_torch
    return types.Datum(
        model_input=types.ModelInput.from_ints(TEXT[:-1]),
        loss_fn_inputs={"target_tokens": convert(targets), "weights": convert(weights)},
    )


def test_several_targets_at_a_place_dense_and_sparse(client: tinker.TrainingClient) -> None:
    dense, sparse = (
        client.forward_backward([many_targets(kind)], "cross_entropy").result(60) for kind in (False, True)
    )
    values = logprobs(dense)[0]
    assert values.shape == (COUNT, 2)
    assert values[:, 0] == pytest.approx(logprobs(client.forward([supervised()], "cross_entropy").result(60))[0])
    assert dense.metrics["loss:sum"] == pytest.approx(-values[:, 0].sum() - values[COUNT // 2 :, 1].sum(), rel=1e-5)
    assert sparse.metrics["loss:sum"] == pytest.approx(dense.metrics["loss:sum"], rel=1e-6)
    assert logprobs(sparse)[0] == pytest.approx(values)


def test_one_and_several_targets_in_one_request(client: tinker.TrainingClient) -> None:
    mixed = client.forward([supervised(), many_targets(True), supervised(TEXT[:5])], "cross_entropy").result(60)
    assert [values.shape for values in logprobs(mixed)] == [(COUNT,), (COUNT, 2), (4,)]


def test_inputs_in_several_chunks_and_inputs_that_no_loss_reads(client: tinker.TrainingClient) -> None:
    datum = supervised()
    chunks: list[types.ModelInputChunk] = [
        types.EncodedTextChunk(tokens=TEXT[:3]),
        types.EncodedTextChunk(tokens=TEXT[3:-1]),
    ]
    split = types.Datum(
        model_input=types.ModelInput(chunks=chunks),
        loss_fn_inputs={**datum.loss_fn_inputs, "unread": tensor([1.0], np.float32)},
    )
    whole, parts = (client.forward([one], "cross_entropy").result(60) for one in (datum, split))
    assert logprobs(whole)[0] == pytest.approx(logprobs(parts)[0])


def negative_likelihood(logprobs: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    loss = -(logprobs * weights).sum()
    return loss, {"custom/nll:sum": loss, "custom/place:mean": logprobs.mean()}


def test_a_loss_that_was_uploaded_runs_on_the_server(service: tinker.ServiceClient) -> None:
    """Its gradient is that of the built-in loss, in one pass."""
    handle = service.create_custom_loss(negative_likelihood, {"logprobs": 1, "weights": 1}).result(60)
    assert handle.loss_id is not None, "the server did not take the loss"
    results, norms = [], []
    for custom in (True, False):
        client = service.create_lora_training_client(base_model=MODEL, rank=4, seed=5).result(60)
        data = [supervised(), supervised(TEXT[:6], weight=0.5)]
        gradient = (
            client.forward_backward_custom(data, handle) if custom else client.forward_backward(data, "cross_entropy")
        )
        step = client.optim_step(ADAM).result(60).metrics
        assert step is not None
        results.append(gradient.result(60))
        norms.append(step["grad_norm"])
    uploaded, built_in = results
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    assert uploaded.metrics["loss:sum"] == pytest.approx(built_in.metrics["loss:sum"], rel=1e-5)
    assert uploaded.metrics["custom/nll:sum"] == pytest.approx(built_in.metrics["loss:sum"], rel=1e-5)
    means = [float(values.mean()) for values in logprobs(built_in)]
    assert uploaded.metrics["custom/place:mean"] == pytest.approx(np.mean(means), rel=1e-4)
    assert [values.tolist() for values in logprobs(uploaded)] == [
        pytest.approx(values.tolist(), abs=1e-5) for values in logprobs(built_in)
    ]


def bomb(logprobs: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return logprobs.repeat(100_000, 100_000).sum(), {}


def test_a_loss_that_would_take_the_memory_is_a_user_error(
    service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    """Refused when it is uploaded, or when it runs; training goes on."""
    with pytest.raises(tinker.RequestFailedError) as refusal:
        handle = service.create_custom_loss(bomb, {"logprobs": 1}).result(60)
        assert handle.loss_id is not None, "it would run here"
        training.forward_backward_custom([supervised()], handle).result(60)
    assert refusal.value.category is types.RequestErrorCategory.User
    assert training.forward_backward([supervised()], "cross_entropy").result(60).metrics["loss:sum"] > 0


@pytest.mark.parametrize("loss", ["stable_reinforce", "unheard_of"])
def test_a_loss_that_is_not_offered_is_refused_with_those_that_are(client: tinker.TrainingClient, loss: str) -> None:
    with pytest.raises(tinker.RequestFailedError, match=loss) as refusal:
        client.forward_backward([supervised()], loss).result(60)  # type: ignore[arg-type]
    assert refusal.value.category is types.RequestErrorCategory.User
    for offered in ("cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"):
        assert offered in str(refusal.value)


def test_awaiting_a_failure_raises_it_too(client: tinker.TrainingClient) -> None:
    async def failing() -> None:
        await client.forward([supervised()], "unheard_of")  # type: ignore[arg-type]

    with pytest.raises(tinker.RequestFailedError, match="unheard_of"):
        asyncio.run(failing())
