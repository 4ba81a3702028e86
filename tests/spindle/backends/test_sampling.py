"""Sampling against `transformers.generate`, the learner, and the distributions asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from scipy.stats import chisquare

from spindle.backends import decoding, sampler
from spindle.backends.contract import (
    Datum,
    ForwardBackward,
    SampledSequence,
    SampleRequest,
    SampleResult,
    SamplingParams,
    UserError,
)
from spindle.backends.prompts import Prompt
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import CONTEXT, VOCABULARY, TinyModel

FREE = SamplingParams(max_tokens=12, seed=0, stop_tokens=())


def _adapters(backend: TorchBackend, model: TinyModel, folder: Path, count: int) -> list[Path]:
    directories = []
    for number in range(count):
        tiny.create(backend, model, f"m{number}")
        tiny.randomize(backend, f"m{number}", seed=number)
        directories.append(folder / f"adapter-{number}")
        directories[-1].mkdir()
        backend.save_adapter(f"m{number}", directories[-1])
    return directories


def test_greedy_is_generate_token_for_token(model: TinyModel) -> None:
    backend = model.backend()
    prompts = [tiny.tokens(length, seed=length) for length in (1, 2, 5, 19, 5, 40)]
    params = SamplingParams(max_tokens=30, temperature=0)
    results = backend.sample([SampleRequest(model.name, None, prompt, 1, params) for prompt in prompts])
    for prompt, result in zip(prompts, results, strict=True):
        assert isinstance(result, SampleResult)
        (sequence,) = result.sequences
        expected = model.network.generate(
            torch.tensor(prompt)[None], max_new_tokens=30, do_sample=False, eos_token_id=2, pad_token_id=0
        )[0, len(prompt) :]
        assert sequence.tokens.tolist() == expected.tolist()
        assert sequence.stop_reason == ("stop" if expected[-1] == 2 else "length")


def test_sampler_and_learner_agree_on_logprobs(model: TinyModel, tmp_path: Path) -> None:
    backend = model.backend()
    adapters = _adapters(backend, model, tmp_path, 2)
    requests = [
        SampleRequest(model.name, adapter, tiny.tokens(length, seed=length), 3, FREE, prompt_logprobs=True)
        for adapter in adapters
        for length in (1, 4, 30)
    ]
    results = backend.sample(requests)
    for request, result in zip(requests, results, strict=True):
        assert isinstance(result, SampleResult)
        assert request.adapter is not None
        assert result.prompt_logprobs is not None
        for sequence in result.sequences:
            whole = np.concatenate([request.prompt, sequence.tokens])
            learned = _logprobs(backend, f"m{adapters.index(request.adapter)}", whole)
            prompt = len(request.prompt)
            np.testing.assert_allclose(sequence.logprobs, learned[prompt - 1 :], atol=2e-5)
            np.testing.assert_allclose(result.prompt_logprobs[1:], learned[: prompt - 1], atol=2e-5)
            assert np.isnan(result.prompt_logprobs[0])


def _logprobs(backend: TorchBackend, model_id: str, whole: Any) -> Any:
    """The learner's log p of tokens 1.. given those before."""
    datum = Datum(
        whole[:-1], {"target_tokens": whole[1:].astype(np.int64), "weights": np.zeros(len(whole) - 1, np.float32)}
    )
    result = tiny.train(backend, ForwardBackward(model_id, [datum], "cross_entropy", forward_only=True))
    return result.outputs[0]["logprobs"]


def test_who_else_is_in_the_batch_does_not_matter(llama: TinyModel, tmp_path: Path) -> None:
    backend = llama.backend()
    adapters = [None, *_adapters(backend, llama, tmp_path, 2)]
    params = SamplingParams(max_tokens=20, seed=5, stop_tokens=(9,))
    requests = [
        SampleRequest(llama.name, adapter, tiny.tokens(length, seed=length), samples, params, prompt_logprobs=True)
        for adapter in adapters
        for length, samples in ((3, 1), (17, 4))
    ]
    together = backend.sample(requests)
    for request, result in zip(requests, together, strict=True):
        (alone,) = backend.sample([request])
        assert isinstance(alone, SampleResult)
        assert isinstance(result, SampleResult)
        for a, b in zip(alone.sequences, result.sequences, strict=True):
            np.testing.assert_array_equal(a.tokens, b.tokens)
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    texts = {tuple(sequence.tokens) for sequence in _only(together[1]).sequences}
    assert len(texts) == 4, "samples of one request differ, seed or not"


def test_rows_join_and_leave_without_a_trace(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = llama.backend()
    requests = [
        SampleRequest(
            llama.name, None, tiny.tokens(n % 7 + 1, seed=n % 5), n % 4 + 1, SamplingParams(3 * n + 1, seed=n)
        )
        for n in range(12)
    ]
    expected = [_only(result) for result in backend.sample(requests)]
    monkeypatch.setattr(sampler, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(decoding, "PROMPT_TOKENS_AT_ONCE", 8)
    for before, result in zip(expected, backend.sample(requests), strict=True):
        for a, b in zip(before.sequences, _only(result).sequences, strict=True):
            np.testing.assert_array_equal(a.tokens, b.tokens)
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


def test_samples_that_could_outgrow_the_cache_take_turns(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 6 samples may take 24 tokens of a cache with room for 50: two at a time."""
    backend = llama.backend()
    request = SampleRequest(llama.name, None, tiny.tokens(4, seed=1), 6, SamplingParams(20, seed=3, stop_tokens=()))
    expected = _only(backend.sample([request])[0])
    monkeypatch.setattr(sampler, "CACHE_BYTES", 50 * backend._bases.get(llama.name).cache_bytes_per_token)
    together: list[int] = []
    step = decoding.PackedDecoder.step

    def counted(self: decoding.PackedDecoder) -> torch.Tensor:
        together.append(len(self.rows))
        return step(self)

    monkeypatch.setattr(decoding.PackedDecoder, "step", counted)
    for a, b in zip(expected.sequences, _only(backend.sample([request])[0]).sequences, strict=True):
        np.testing.assert_array_equal(a.tokens, b.tokens)
    assert max(together) == 2


def test_a_prompt_is_computed_once_for_all_its_samples(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = llama.backend()
    seen: list[list[int]] = []
    compute = decoding.PackedDecoder.compute

    def counted(self: decoding.PackedDecoder, prompts: list[Prompt]) -> None:
        seen.extend(prompt.tokens.tolist() for prompt in prompts)
        compute(self, prompts)

    monkeypatch.setattr(decoding.PackedDecoder, "compute", counted)
    one, two = tiny.tokens(6, seed=1), tiny.tokens(6, seed=2)
    results = backend.sample([SampleRequest(llama.name, None, prompt, 8, FREE) for prompt in (one, two, one)])
    assert seen == [one.tolist(), two.tolist()]
    assert [_only(result).prompt_cache_hit_tokens for result in results] == [0, 0, 6]


@pytest.mark.parametrize(
    ("params", "keep"),
    [
        (SamplingParams(1), lambda p: p),
        (SamplingParams(1, temperature=0.5), lambda p: p**2),
        (SamplingParams(1, top_k=5), lambda p: np.where(p >= np.sort(p)[-5], p, 0)),
        (SamplingParams(1, top_p=0.6), lambda p: np.where(p >= _nucleus(p, 0.6), p, 0)),
        (SamplingParams(1, temperature=2.0, top_k=7, top_p=0.8), lambda p: _nucleus_of_top(p**0.5, 7, 0.8)),
    ],
)
def test_samples_follow_the_distribution_asked_for(llama: TinyModel, params: SamplingParams, keep: Any) -> None:
    backend = llama.backend()
    prompt = tiny.tokens(8, seed=4)
    draws = 4000
    params = SamplingParams(**{**params.__dict__, "seed": 1, "stop_tokens": ()})
    result = tiny.sample(backend, llama, prompt, params, num_samples=draws)
    logits = llama.network(torch.tensor(prompt)[None]).logits[0, -1].detach()
    model_probabilities = torch.softmax(logits.double(), -1).numpy()
    weights = keep(model_probabilities)
    counts = np.bincount([int(s.tokens[0]) for s in result.sequences], minlength=VOCABULARY)
    assert counts[weights == 0].sum() == 0
    expected = draws * weights / weights.sum()
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    pooled = np.append(expected[common], expected[~common].sum())
    usable = pooled > 0
    assert chisquare(observed[usable], pooled[usable]).pvalue > 1e-3
    for sequence in result.sequences[:5]:
        assert sequence.logprobs[0] == pytest.approx(np.log(model_probabilities[sequence.tokens[0]]), abs=1e-5)


def _nucleus(p: Any, mass: float) -> float:
    """The smallest probability inside the nucleus."""
    ordered = np.sort(p / p.sum())[::-1]
    return float(np.sort(p)[::-1][int((np.cumsum(ordered) < mass).sum())])


def _nucleus_of_top(p: Any, k: int, mass: float) -> Any:
    top = np.where(p >= np.sort(p)[-k], p, 0)
    return np.where(top >= _nucleus(top, mass), top, 0)


def test_stop_tokens(llama: TinyModel) -> None:
    backend = llama.backend()
    prompt = tiny.tokens(4, seed=9)
    (free,) = tiny.sample(backend, llama, prompt, SamplingParams(40, temperature=0, stop_tokens=())).sequences
    assert len(free.tokens) == 40
    assert free.stop_reason == "length"
    stop = int(free.tokens[6])
    first = free.tokens.tolist().index(stop)
    (stopped,) = tiny.sample(backend, llama, prompt, SamplingParams(40, temperature=0, stop_tokens=(stop,))).sequences
    assert stopped.tokens.tolist() == free.tokens[: first + 1].tolist()
    np.testing.assert_allclose(stopped.logprobs, free.logprobs[: first + 1], atol=1e-6)
    assert stopped.stop_reason == "stop"


def test_the_end_of_sequence_stops_unless_no_stops_are_asked_for(llama: TinyModel) -> None:
    backend = llama.backend()
    prompt = tiny.tokens(4, seed=9)
    runs = {
        stop: tiny.sample(
            backend, llama, prompt, SamplingParams(40, 3.0, seed=3, stop_tokens=stop), num_samples=40
        ).sequences
        for stop in (None, ())
    }
    ended = [s for s in runs[None] if s.stop_reason == "stop"]
    assert ended
    assert all(s.tokens[-1] == 2 and 2 not in s.tokens[:-1] for s in ended)
    assert all(len(s.tokens) == 40 for s in runs[()])
    assert any(2 in s.tokens for s in runs[()])


def test_no_max_tokens_fills_the_context(llama: TinyModel) -> None:
    backend = llama.backend()
    (sequence,) = tiny.sample(backend, llama, tiny.tokens(10), SamplingParams(stop_tokens=())).sequences
    assert len(sequence.tokens) == CONTEXT - 10


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": np.array([], dtype=np.int64)}, "prompt must be a list of at least one token"),
        ({"prompt": np.array([VOCABULARY])}, f"prompt has the token id {VOCABULARY}"),
        ({"prompt": tiny.tokens(CONTEXT - 5)}, f"exceed the model's context of {CONTEXT}"),
        ({"prompt": tiny.tokens(CONTEXT), "params": SamplingParams()}, "exceed the model's context"),
        ({"num_samples": 0}, "num_samples must be at least 1, found 0"),
        ({"params": SamplingParams(0)}, "max_tokens must be at least 1, found 0"),
        ({"params": SamplingParams(5, temperature=-1)}, "temperature must be finite and at least 0"),
        ({"params": SamplingParams(5, top_k=-2)}, "top_k must be -1"),
        ({"params": SamplingParams(5, top_p=0)}, "top_p must be above 0"),
        ({"params": SamplingParams(5, stop_tokens=(VOCABULARY,))}, "stop must be token ids"),
        ({"params": SamplingParams(5, stop_strings=("x",))}, r"stop strings need the model's tokenizer.json"),
        ({"base_model": "org/none"}, "base model 'org/none' is not served here"),
    ],
)
def test_a_request_that_cannot_be_answered_fails_alone(
    llama: TinyModel, changes: dict[str, Any], sentence: str
) -> None:
    backend = llama.backend()
    parts = {
        "base_model": llama.name,
        "adapter": None,
        "prompt": tiny.tokens(5),
        "num_samples": 1,
        "params": SamplingParams(12),
    }
    good = SampleRequest(**{**parts, "params": FREE})  # type: ignore[arg-type]
    before, failed, after = backend.sample([good, SampleRequest(**{**parts, **changes}), good])
    assert len(_first(before).tokens) == len(_first(after).tokens) == 12
    with pytest.raises(UserError, match=sentence):
        _only(failed)


@pytest.mark.parametrize("params", [FREE, SamplingParams(3, temperature=0), SamplingParams(3, top_k=5, top_p=0.5)])
def test_weights_that_diverged_fail_their_own_requests(
    llama: TinyModel, tmp_path: Path, params: SamplingParams
) -> None:
    backend = llama.backend()
    sound, diverged = _adapters(backend, llama, tmp_path, 2)
    weights = load_file(diverged / "adapter_model.safetensors")
    save_file(
        {name: weight * np.float32(1e30) for name, weight in weights.items()}, diverged / "adapter_model.safetensors"
    )
    requests = [SampleRequest(llama.name, adapter, tiny.tokens(5), 2, params) for adapter in (sound, diverged, None)]
    before, failed, after = backend.sample(requests)
    with pytest.raises(UserError, match="have diverged"):
        _only(failed)
    for result in (before, after):
        assert np.isfinite(_first(result).logprobs).all()


def _only(result: SampleResult | UserError) -> SampleResult:
    if isinstance(result, UserError):
        raise result
    return result


def _first(result: SampleResult | UserError) -> SampledSequence:
    return _only(result).sequences[0]
