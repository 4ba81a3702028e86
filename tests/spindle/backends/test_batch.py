"""The running batch: requests join and leave at any step, and none notices the others."""

import shutil
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from spindle.backends import checkpoints, decoding, prompts, sampler, snapshots
from spindle.backends.base import Base
from spindle.backends.caches import RowCache
from spindle.backends.contract import SampleBatch, SampleRequest, SampleResult, SamplingParams, UserError
from spindle.backends.lora import Adapter
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import TinyModel

Ended = dict[int, SampleResult | UserError]


def _request(model: TinyModel, number: int, adapter: Path | None = None, *, tokens: int = 12) -> SampleRequest:
    """Requests that differ in everything, from their number."""
    params = SamplingParams(tokens + number % 5, [1.0, 0.7, 0.0][number % 3], seed=number, stop_tokens=())
    prompt = tiny.tokens(3 + 11 * number % 40, seed=number)
    return SampleRequest(model.name, adapter, prompt, 1 + number % 3, params, prompt_logprobs=True)


def _adapters(backend: TorchBackend, model: TinyModel, folder: Path) -> list[Path | None]:
    """The base model and two snapshots."""
    saved: list[Path | None] = [None]
    for number in range(2):
        tiny.create(backend, model, f"m{number}")
        tiny.randomize(backend, f"m{number}", seed=number)
        saved.append(folder / f"adapter-{number}")
        (folder / f"adapter-{number}").mkdir()
        backend.save_adapter(f"m{number}", folder / f"adapter-{number}")
    return saved


def _finish(batch: SampleBatch, count: int) -> Ended:
    ended: Ended = {}
    for _ in range(200):
        ended |= batch.step()
        if len(ended) == count:
            return ended
    raise AssertionError(f"only {len(ended)} of {count} ended")


def _assert_same(one: SampleResult | UserError, other: SampleResult | UserError, atol: float = 0) -> None:
    """The same tokens, and logprobs equal to the bit unless a base runs the library's own layers."""
    assert isinstance(one, SampleResult)
    assert isinstance(other, SampleResult)
    assert one.prompt_logprobs is not None
    assert other.prompt_logprobs is not None
    np.testing.assert_allclose(one.prompt_logprobs, other.prompt_logprobs, rtol=0, atol=atol)
    for a, b in zip(one.sequences, other.sequences, strict=True):
        np.testing.assert_array_equal(a.tokens, b.tokens)
        np.testing.assert_allclose(a.logprobs, b.logprobs, rtol=0, atol=atol)


def test_a_request_has_the_same_result_alone_in_a_crowd_and_joining_midway(model: TinyModel, tmp_path: Path) -> None:
    backend = model.backend()
    adapters = _adapters(backend, model, tmp_path)
    packs = backend._bases.get(model.name).packs
    count, tokens = (9, 12) if packs else (5, 5)  # the library's own layers take their time
    requests = {number: _request(model, number, adapters[number % 3], tokens=tokens) for number in range(count)}
    batch = backend.sampling(model.name)
    ended: Ended = {}
    for number, request in requests.items():
        batch.add(number, request)
        for _ in range(number % 4):
            ended |= batch.step()
    ended |= _finish(batch, len(requests) - len(ended))
    for number in (0, 3, count - 1):
        _assert_same(ended[number], backend.sample([requests[number]])[0], atol=0 if packs else 1e-5)


def test_a_cancelled_request_leaves_and_the_others_go_on(llama: TinyModel) -> None:
    backend = llama.backend()
    requests = {number: _request(llama, number) for number in range(4)}
    batch = backend.sampling(llama.name)
    for number, request in requests.items():
        batch.add(number, request)
    batch.step()
    assert batch.sequences == sum(request.num_samples for request in requests.values())
    batch.cancel(1)
    batch.cancel(99)
    assert batch.sequences == sum(request.num_samples for number, request in requests.items() if number != 1)
    ended = _finish(batch, 3)
    assert ended.keys() == {0, 2, 3}
    assert batch.sequences == 0
    for number in ended:
        _assert_same(ended[number], backend.sample([requests[number]])[0])


def test_a_request_that_waits_can_be_cancelled(llama: TinyModel) -> None:
    batch = llama.backend().sampling(llama.name)
    batch.add(0, _request(llama, 0))
    batch.cancel(0)
    assert batch.sequences == 0
    assert batch.step() == []


def test_a_request_that_was_refused_can_be_cancelled(llama: TinyModel) -> None:
    batch = llama.backend().sampling(llama.name)
    batch.add(0, replace(_request(llama, 0), num_samples=0))
    batch.cancel(0)
    assert batch.step() == []


def test_a_step_that_breaks_empties_the_batch_which_goes_on(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = llama.backend()
    batch = backend.sampling(llama.name)
    batch.add(0, _request(llama, 0))
    batch.step()

    def broken(self: decoding.PackedDecoder) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(decoding.PackedDecoder, "step", broken)
        with pytest.raises(MemoryError):
            batch.step()
    assert batch.sequences == 0
    batch.add(1, _request(llama, 1))
    _assert_same(_finish(batch, 1)[1], backend.sample([_request(llama, 1)])[0])


def test_long_requests_wait_for_room_in_the_cache(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of samples that may take 32 and 64 tokens, the cache holds 128 tokens: two of the long ones at most."""
    backend = llama.backend()
    per_token = backend._bases.get(llama.name).cache_bytes_per_token
    monkeypatch.setattr(sampler, "CACHE_BYTES", 128 * per_token)
    largest: list[int] = []
    open_step = RowCache.open_step

    def watched(self: RowCache, longest: int) -> object:
        opened = open_step(self, longest)
        largest.append(self.nbytes)
        return opened

    monkeypatch.setattr(RowCache, "open_step", watched)
    lengths = [(8, 24), (8, 56), (8, 56), (8, 24)]
    requests = [
        SampleRequest(llama.name, None, tiny.tokens(prompt, seed=i), 2, SamplingParams(new, seed=i, stop_tokens=()))
        for i, (prompt, new) in enumerate(lengths)
    ]
    results = backend.sample(requests)
    assert all(isinstance(result, SampleResult) for result in results)
    assert 64 * per_token < max(largest) <= 128 * per_token
    monkeypatch.undo()
    (alone,) = backend.sample(requests[2:3])
    assert isinstance(alone, SampleResult)
    assert isinstance(results[2], SampleResult)
    for a, b in zip(alone.sequences, results[2].sequences, strict=True):
        np.testing.assert_array_equal(a.tokens, b.tokens)


def test_a_step_computes_no_more_prompts_than_a_pass_takes(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PROMPT_TOKENS_AT_ONCE", 64)
    batch = llama.backend().sampling(llama.name)
    for key, length in enumerate([30, 30, 30, 90, 4]):
        prompt = tiny.tokens(length, seed=key)
        batch.add(key, SampleRequest(llama.name, None, prompt, 2, SamplingParams(1, seed=0)))
    assert [sorted(key for key, _ in batch.step()) for _ in range(4)] == [[0, 1], [2], [3], [4]]


def test_a_prompt_asked_for_again_is_not_computed_again(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = llama.backend()
    computed: list[int] = []
    batches = decoding._batches

    def counted(prompts: list[prompts.Prompt], grain: int) -> object:
        computed.append(len(prompts))
        return batches(prompts, grain)

    monkeypatch.setattr(decoding, "_batches", counted)
    batch = backend.sampling(llama.name)
    request = _request(llama, 5)
    batch.add(0, request)
    batch.step()
    batch.add(1, request)  # while the first one runs
    ended = _finish(batch, 2)
    batch.add(2, request)  # and when nothing does
    ended |= _finish(batch, 1)
    assert sum(computed) == 1
    hits = [result.prompt_cache_hit_tokens for result in ended.values() if isinstance(result, SampleResult)]
    assert hits == [0, len(request.prompt), len(request.prompt)]
    _assert_same(ended[0], ended[1])
    _assert_same(ended[0], ended[2])


def test_lately_computed_prompts_are_bounded_in_bytes(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = llama.backend()
    base = backend._bases.get(llama.name)
    size = 20 * (base.cache_bytes_per_token + 4 * base.head.shape[1])
    monkeypatch.setattr(prompts, "BYTES", 2 * size)
    batch = backend.sampling(llama.name)
    hits = []
    for key, seed in enumerate([1, 2, 1, 3, 1, 2]):
        prompt = tiny.tokens(20, seed=seed)
        batch.add(key, SampleRequest(llama.name, None, prompt, 1, SamplingParams(1, seed=0)))
        (result,) = _finish(batch, 1).values()
        assert isinstance(result, SampleResult)
        hits.append(result.prompt_cache_hit_tokens)
    assert hits == [0, 0, 20, 0, 20, 0]


def test_a_prompt_is_computed_anew_for_another_snapshot(llama: TinyModel, tmp_path: Path) -> None:
    backend = llama.backend()
    adapters = _adapters(backend, llama, tmp_path)
    batch = backend.sampling(llama.name)
    for key, adapter in enumerate(adapters):
        batch.add(key, SampleRequest(llama.name, adapter, tiny.tokens(9), 1, SamplingParams(1, seed=0)))
    results = _finish(batch, 3).values()
    assert [result.prompt_cache_hit_tokens for result in results if isinstance(result, SampleResult)] == [0, 0, 0]
    assert len({result.sequences[0].logprobs[0] for result in results if isinstance(result, SampleResult)}) == 3


def test_a_snapshot_overwritten_while_loaded_is_read_again(llama: TinyModel, tmp_path: Path) -> None:
    backend = llama.backend()
    _, first, second = _adapters(backend, llama, tmp_path)
    assert first is not None
    assert second is not None
    request = SampleRequest(llama.name, first, tiny.tokens(9), 1, SamplingParams(6, seed=0, stop_tokens=()), True)
    batch = backend.sampling(llama.name)
    batch.add(0, request)
    before = _finish(batch, 1)[0]
    (second / "adapter_model.safetensors").replace(first / "adapter_model.safetensors")
    batch.add(1, request)
    after = _finish(batch, 1)[1]
    assert isinstance(before, SampleResult)
    assert isinstance(after, SampleResult)
    assert after.prompt_cache_hit_tokens == 0
    assert np.abs(before.prompt_logprobs[1:] - after.prompt_logprobs[1:]).max() > 1e-3  # type: ignore[index]


def test_snapshots_in_memory_are_bounded_in_bytes(
    llama: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = llama.backend()
    _, first, second = _adapters(backend, llama, tmp_path)
    base = backend._bases.get(llama.name)
    assert first is not None
    assert second is not None
    loaded = backend._snapshots.get(base, first)
    assert backend._snapshots.get(base, second) is not loaded
    assert backend._snapshots.get(base, first) is loaded
    monkeypatch.setattr(snapshots, "BYTES", 1)
    backend._snapshots.get(base, second)
    assert backend._snapshots.get(base, first) is not loaded, "the one used last is kept, whatever its size"


def test_rows_do_not_hold_what_their_prompts_were_computed_to(
    llama: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a copy in the cache; only so many bytes of lately computed prompts are kept, and found again."""
    computed: list[weakref.ref[Tensor]] = []
    compute = decoding.PackedDecoder.compute

    def noted(self: decoding.PackedDecoder, some: Sequence[prompts.Prompt]) -> None:
        compute(self, some)
        computed.extend(weakref.ref(prompt.computed) for prompt in some)

    monkeypatch.setattr(decoding.PackedDecoder, "compute", noted)
    batch = llama.backend().sampling(llama.name)
    batch.add(0, _request(llama, 0))
    batch.step()
    batch.add(1, _request(llama, 0))
    assert [reference() is not None for reference in computed] == [True], "kept for the next request"
    ended = _finish(batch, 2)
    _assert_same(ended[0], ended[1])
    assert [result.prompt_cache_hit_tokens for result in ended.values() if isinstance(result, SampleResult)] == [0, 3]

    monkeypatch.setattr(prompts, "BYTES", 0)
    batch = llama.backend().sampling(llama.name)
    batch.add(0, _request(llama, 2))
    batch.step()
    assert batch.sequences == 3
    assert computed[-1]() is None
    batch.add(1, _request(llama, 2))
    ended = _finish(batch, 2)
    _assert_same(ended[0], ended[1])


def test_adapters_are_loaded_as_their_requests_start(
    llama: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for the weights of one adapter, six wait on the disk for their turn."""
    backend = llama.backend()
    saved = [path for path in _adapters(backend, llama, tmp_path) if path is not None]
    copies = [shutil.copytree(saved[number % 2], tmp_path / f"copy-{number}") for number in range(6)]
    requests = [_request(llama, number, copy) for number, copy in enumerate(copies)]
    expected = backend.sample(requests)
    backend = llama.backend()
    monkeypatch.setattr(snapshots, "BYTES", 1)
    monkeypatch.setattr(sampler, "ADAPTER_BYTES", 1)
    loaded: list[weakref.ref[Adapter]] = []
    alive: list[int] = []
    read, step = checkpoints.read_adapter, decoding.PackedDecoder.step

    def noted(base: Base, directory: Path) -> Adapter:
        adapter = read(base, directory)
        loaded.append(weakref.ref(adapter))
        return adapter

    def counted(self: decoding.PackedDecoder) -> Tensor:
        alive.append(sum(adapter() is not None for adapter in loaded))
        return step(self)

    monkeypatch.setattr(checkpoints, "read_adapter", noted)
    monkeypatch.setattr(decoding.PackedDecoder, "step", counted)
    batch = backend.sampling(llama.name)
    for number, request in enumerate(requests):
        batch.add(number, request)
    assert batch.sequences == sum(request.num_samples for request in requests)
    batch.add(6, _request(llama, 6, copies[5]))
    batch.cancel(6)
    ended = _finish(batch, 6)
    for number, result in enumerate(expected):
        _assert_same(ended[number], result)
    assert len(loaded) == 6
    assert max(alive) <= 2
    assert batch.sequences == 0


def test_a_snapshot_that_cannot_be_read_fails_its_request_alone(llama: TinyModel, tmp_path: Path) -> None:
    backend = llama.backend()
    _, sound, damaged = _adapters(backend, llama, tmp_path)
    assert damaged is not None
    (damaged / "adapter_config.json").write_text("{}", encoding="utf-8")
    good, failed = backend.sample([_request(llama, 0, sound), _request(llama, 1, damaged)])
    assert isinstance(good, SampleResult)
    assert str(failed).startswith(f"{damaged} cannot be read (KeyError: ")
