"""Packed batches: the layout, prompts computed once, tenants in one pass, and memory that stays bounded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spindle.backends import batching, layers, learner, lora, packing
from spindle.backends.contract import Array, Datum, ForwardBackward, ForwardBackwardResult, LoraShape, UserError
from spindle.backends.layered import LayeredBase
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import reference, tiny
from tests.spindle.backends.tiny import TinyModel

PROMPT = 24


def group(lengths: Sequence[int], seed: int = 0, prompt: int = PROMPT) -> list[Array]:
    """Sequences that begin with the same prompt, each with some tokens of its own."""
    start = tiny.tokens(prompt, seed)
    return [np.concatenate([start, tiny.tokens(n, 100 + seed + i)]) for i, n in enumerate(lengths)]


def rollouts(sequences: Sequence[Array]) -> list[Datum]:
    """Importance sampling on sequences whose targets are their own next tokens, as RL scripts send them."""
    data = []
    for i, sequence in enumerate(sequences):
        datum = tiny.importance_sampling_datum(len(sequence) - 1, seed=i)
        data.append(Datum(sequence[:-1], {**datum.loss_inputs, "target_tokens": sequence[1:]}))
    return data


MIXED = [
    *group([9, 9, 5, 17, 1]),
    *group([30, 4], seed=7),
    tiny.tokens(11, 50),
    tiny.tokens(40, 51),
    tiny.tokens(40, 52),
]
TWINS = [*group([6, 6]), group([6, 6])[0], tiny.tokens(PROMPT), tiny.tokens(20)]
"""Equal sequences, and sequences that are the beginning of others."""


@pytest.mark.parametrize("sequences", [MIXED, TWINS, [tiny.tokens(1)]])
def test_rows_spell_out_every_sequence(sequences: list[Array]) -> None:
    packed = packing.pack(sequences)
    for sequence, rows in zip(sequences, packed.rows, strict=True):
        np.testing.assert_array_equal(packed.tokens[rows], sequence)
        np.testing.assert_array_equal(packed.positions[rows], np.arange(len(sequence)))
    prefixes = {tuple(sequence[: i + 1]) for sequence in sequences for i in range(len(sequence))}
    assert len(packed.tokens) == len(prefixes), "each beginning is computed once"
    assert sum(block.size for block in packed.blocks) == len(packed.tokens)


def test_a_few_common_tokens_are_not_worth_sharing() -> None:
    sequences = group([20, 30], prompt=packing.LEAST_SHARED - 1)
    packed = packing.pack(sequences)
    assert len(packed.tokens) == sum(map(len, sequences))


@pytest.mark.parametrize("sequences", [MIXED, TWINS, [tiny.tokens(12, i) for i in range(3)]])
def test_attention_is_that_of_each_sequence_alone(sequences: list[Array]) -> None:
    packed = [packing.pack(sequences), packing.pack(MIXED)]
    rows = sum(len(part.tokens) for part in packed)
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(rows, heads, 1, 8, generator=generator, dtype=torch.float64).requires_grad_() for heads in (4, 2, 2)
    )
    found = packing.Plan(packed, torch.device("cpu"), torch.float64).attend(query, key, value, 0.3)
    assert found.shape == (rows, 1, 4, 8)
    weights = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    expected = torch.zeros_like(found)
    first = 0
    for part, own in zip(packed, (sequences, MIXED), strict=True):
        for index in range(len(own)):
            at = torch.tensor(part.rows[index]) + first
            q, k, v = (states[at, :, 0].transpose(0, 1)[None] for states in (query, key, value))
            alone = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
            expected = expected.index_put((at,), alone[0].transpose(0, 1)[:, None])
        first += len(part.tokens)
    torch.testing.assert_close(found, expected)
    leaves = (query, key, value)
    for ours, theirs in zip(
        torch.autograd.grad((weights * found).sum(), leaves),
        torch.autograd.grad((weights * expected).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_groups_stay_together_within_the_budget() -> None:
    sequences = [*group([10] * 4), *group([10] * 4, seed=9), tiny.tokens(90, 60), *group([40] * 4, seed=20)]
    batches = batching.packed_batches(sequences, 80)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sequences)))
    assert [8] in batches, "longer than the budget: alone"
    homes = [[i for i, batch in enumerate(batches) if index in batch] for index in range(8)]
    assert homes[0] == homes[1] == homes[2] == homes[3]
    assert homes[4] == homes[5] == homes[6] == homes[7]
    for batch in batches:
        assert len(batch) == 1 or len(packing.pack([sequences[i] for i in batch]).tokens) <= 80


def test_many_short_answers_to_a_long_prompt_are_bounded_by_the_keys_they_collect() -> None:
    sequences = group([1] * 60, prompt=90)
    batches = batching.packed_batches(sequences, 120)
    collected = [sum(len(sequences[i]) for i in batch[1:]) for batch in batches]
    assert len(batches) > 1
    assert max(collected) <= 120 * 16


def test_a_shared_prompt_matches_float64(model: TinyModel) -> None:
    backend = model.backend()
    tiny.create(backend, model)
    data = rollouts(MIXED)
    expected = reference.evaluate(model, backend, data, reference.importance_sampling)
    result = tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
    assert result.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5, abs=1.5e-4)  # of some 60 tokens
    for output, logprobs in zip(result.outputs, expected.logprobs, strict=True):
        np.testing.assert_allclose(output["logprobs"], logprobs, atol=5e-5)  # as unshared: the rounding of fp32
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


@pytest.mark.parametrize("loss", ["importance_sampling", "gspo"])
def test_sharing_changes_nothing(llama: TinyModel, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    data = [
        Datum(d.tokens, {**d.loss_inputs, "sequence_ratio_mask": np.ones(len(d.tokens), np.float32)})
        for d in rollouts([*MIXED, *TWINS])
    ]

    def trained() -> tuple[ForwardBackwardResult, dict[str, torch.Tensor]]:
        backend = llama.backend()
        tiny.create(backend, llama)
        return tiny.train(backend, ForwardBackward("m", data, loss)), tiny.gradient(backend)

    shared, gradient = trained()
    monkeypatch.setattr(packing, "LEAST_SHARED", 1000)
    alone, expected = trained()
    assert shared.metrics == pytest.approx(alone.metrics, rel=1e-5, abs=1e-5)
    for one, other in zip(shared.outputs, alone.outputs, strict=True):
        np.testing.assert_allclose(one["logprobs"], other["logprobs"], atol=1e-5)
    reference.assert_gradients(gradient, expected)


def test_a_request_does_not_depend_on_who_shares_its_pass(llama: TinyModel) -> None:
    """To the bit, gradients included."""
    data = {"a": rollouts(MIXED), "b": [tiny.cross_entropy_datum(n, seed=n) for n in (7, 31)], "c": rollouts(TWINS)}
    losses = {"a": "importance_sampling", "b": "cross_entropy", "c": "importance_sampling"}
    ranks = {"a": 4, "b": 1, "c": 16}

    def trained(names: str) -> tuple[TorchBackend, list[ForwardBackwardResult]]:
        backend = llama.backend()
        for name in names:
            tiny.create(backend, llama, name, LoraShape(rank=ranks[name], seed=ord(name)))
        results = backend.forward_backward([ForwardBackward(name, data[name], losses[name]) for name in names])
        return backend, [result for result in results if not isinstance(result, UserError)]

    together, results = trained("abc")
    assert len(results) == 3
    for name, result in zip("abc", results, strict=True):
        alone, [expected] = trained(name)
        assert result.metrics == expected.metrics
        for one, other in zip(result.outputs, expected.outputs, strict=True):
            np.testing.assert_array_equal(one["logprobs"], other["logprobs"])
        gradient = tiny.gradient(alone, name)
        assert gradient.keys() == tiny.gradient(together, name).keys()
        assert all(torch.equal(part, tiny.gradient(together, name)[key]) for key, part in gradient.items())


def test_a_bad_request_costs_its_neighbours_nothing(llama: TinyModel) -> None:
    backend = llama.backend()
    for name in ("a", "b", "c"):
        tiny.create(backend, llama, name)
    good = rollouts(MIXED)
    diverged = [tiny.importance_sampling_datum(12)]
    diverged[0].loss_inputs["logprobs"][:] = -1e30
    requests = [
        ForwardBackward("a", good, "importance_sampling"),
        ForwardBackward("b", diverged, "importance_sampling"),
        ForwardBackward("gone", good, "importance_sampling"),
        ForwardBackward("b", [], "importance_sampling"),
        ForwardBackward("c", good, "importance_sampling"),
    ]
    first, *bad, last = backend.forward_backward(requests)
    assert all(isinstance(answer, UserError) for answer in bad)
    assert isinstance(first, ForwardBackwardResult)
    assert isinstance(last, ForwardBackwardResult)
    assert tiny.gradient(backend, "b") == {}
    assert all(
        torch.equal(part, tiny.gradient(backend, "c")[name]) for name, part in tiny.gradient(backend, "a").items()
    )


@pytest.mark.parametrize("rank", [1, 3, 256])
def test_any_rank(llama: TinyModel, rank: int) -> None:
    backend = llama.backend()
    tiny.create(backend, llama, lora=LoraShape(rank=rank, seed=1))
    data = rollouts(MIXED[:4])
    expected = reference.evaluate(llama, backend, data, reference.importance_sampling)
    tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_a_base_that_does_not_pack_is_padded(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LayeredBase, "packs", False)
    monkeypatch.setattr(learner, "TOKENS_AT_ONCE", 150)
    backend = llama.backend()
    tiny.create(backend, llama)
    data = rollouts(MIXED)
    expected = reference.evaluate(llama, backend, data, reference.importance_sampling)
    result = tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
    for output, logprobs in zip(result.outputs, expected.logprobs, strict=True):
        np.testing.assert_allclose(output["logprobs"], logprobs, atol=5e-5)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_adapters_stay_fp32_on_a_base_of_another_type(llama: TinyModel) -> None:
    data = [tiny.cross_entropy_datum(n, seed=n) for n in (30, 11, 40)]
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        backend = TorchBackend([llama.info], torch.device("cpu"), dtype)
        tiny.create(backend, llama)
        result = tiny.train(backend, ForwardBackward("m", data, "cross_entropy", forward_only=True))
        tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
        found[dtype] = (result, tiny.gradient(backend))
        assert {part.dtype for part in tiny.gradient(backend).values()} == {torch.float32}
        assert {part.dtype for part in backend._models["m"].adapter.parameters().values()} == {torch.float32}
    (exact, gradient), (rounded, near) = found.values()
    errors = [
        np.abs(one["logprobs"] - other["logprobs"]).mean()
        for one, other in zip(exact.outputs, rounded.outputs, strict=True)
    ]
    assert 0 < max(errors) < 0.1
    for name, part in gradient.items():
        assert F.cosine_similarity(part.flatten(), near[name].flatten(), dim=0) > 0.95, name


def test_a_sequence_over_the_budget_is_computed_again_layer_by_layer(
    llama: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same gradient, from the inputs of the layers alone."""
    data = rollouts([tiny.tokens(90, 3)])

    def trained() -> dict[str, torch.Tensor]:
        backend = llama.backend()
        tiny.create(backend, llama)
        tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
        return tiny.gradient(backend)

    kept = trained()
    calls: list[torch.Size] = []
    turned = layers._turned

    def counted(*tensors: torch.Tensor) -> torch.Tensor:
        calls.append(tensors[0].shape)
        return turned(*tensors)

    monkeypatch.setattr(layers, "_turned", counted)
    monkeypatch.setattr(learner, "TOKENS_AT_ONCE", 40)
    computed_again = trained()
    assert len(calls) == 3 * 2 * (2 + 1), "three layers turn queries and keys in two forward passes and a backward one"
    assert all(torch.equal(part, computed_again[name]) for name, part in kept.items())


def test_a_long_sequence_is_computed_again_on_a_base_that_does_not_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hybrid = tiny.write_model(tmp_path / "hybrid", "Qwen3_5", tied=True)
    data = rollouts([tiny.tokens(60, 3)])
    calls: list[torch.Size] = []
    linear = lora.lora_linear

    def counted(inputs: torch.Tensor, *rest: Any) -> torch.Tensor:
        calls.append(inputs.shape)
        return linear(inputs, *rest)

    def trained() -> dict[str, torch.Tensor]:
        backend = hybrid.backend()
        tiny.create(backend, hybrid)
        calls.clear()
        tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
        return tiny.gradient(backend)

    monkeypatch.setattr(lora, "lora_linear", counted)
    kept = trained()
    once = len(calls)
    monkeypatch.setattr(learner, "TOKENS_AT_ONCE", 40)
    reference.assert_gradients(trained(), kept)
    assert len(calls) == 2 * once
