"""What is said of prompts and likely tokens, against float64 log-softmax of the library's own logits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from spindle.backends import base
from spindle.backends.contract import AltTokens, SampleRequest, SampleResult, SamplingParams, TopK, UserError
from spindle.backends.requests import MOST_CELLS
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import CONTEXT, VOCABULARY, TinyModel

ONE = SamplingParams(max_tokens=1, seed=0, stop_tokens=())
PROMPT = tiny.tokens(20, seed=3)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of 32 positions at a time, so that longer prompts take several blocks."""
    monkeypatch.setattr(base, "_LOGITS_AT_ONCE", 1)


def _ask(model: TinyModel, **fields: Any) -> SampleResult:
    request = SampleRequest(model.name, None, PROMPT, 1, ONE)
    (result,) = model.backend().sample([replace(request, **fields)])
    if isinstance(result, UserError):
        raise result
    return result


def _logprobs(model: TinyModel, tokens: Any) -> Any:
    """float64 [T, vocabulary]: row i is about token i + 1."""
    network = model.network.double()
    try:
        return torch.log_softmax(network(torch.tensor(tokens)[None]).logits[0].detach(), -1).numpy()
    finally:
        model.network.float()


def test_prompt_logprobs(llama: TinyModel) -> None:
    prompt = tiny.tokens(70, seed=8)
    expected = _logprobs(llama, prompt)
    found = _ask(llama, prompt=prompt, prompt_logprobs=True).prompt_logprobs
    assert found is not None
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], expected[np.arange(69), prompt[1:]], atol=2e-5)


def test_the_last_n_prompt_logprobs_and_top_k_rows(llama: TinyModel) -> None:
    whole = _ask(llama, prompt_logprobs=True, topk_prompt_logprobs=4)
    part = _ask(llama, prompt_logprobs=True, topk_prompt_logprobs=4, prompt_logprobs_last_n=6)
    assert whole.prompt_logprobs is not None
    assert part.prompt_logprobs is not None
    assert np.isnan(part.prompt_logprobs[:-6]).all()
    np.testing.assert_allclose(part.prompt_logprobs[-6:], whole.prompt_logprobs[-6:], atol=1e-6)
    assert whole.topk_prompt is not None
    assert part.topk_prompt is not None
    assert (part.topk_prompt.token_ids[:-6] == 0).all()
    assert (part.topk_prompt.logprobs[:-6] == -99999.0).all()
    np.testing.assert_array_equal(part.topk_prompt.token_ids[-6:], whole.topk_prompt.token_ids[-6:])


@pytest.mark.parametrize("length", [1, 20, 70])
def test_top_k_of_prompt_tokens(llama: TinyModel, length: int) -> None:
    prompt = tiny.tokens(length, seed=5)
    top = _ask(llama, prompt=prompt, topk_prompt_logprobs=3).topk_prompt
    assert top is not None
    assert (top.token_ids[0] == 0).all()
    assert (top.logprobs[0] == -99999.0).all()
    _check_top(top, _logprobs(llama, prompt)[:-1], skip=1)
    assert top.token_ids.dtype == np.int32


def test_top_k_of_sampled_tokens(llama: TinyModel) -> None:
    params = SamplingParams(max_tokens=9, seed=4, stop_tokens=())
    result = _ask(llama, params=params, num_samples=3, topk_sample_logprobs=VOCABULARY)
    for sequence in result.sequences:
        expected = _logprobs(llama, np.concatenate([PROMPT, sequence.tokens]))[len(PROMPT) - 1 : -1]
        assert sequence.topk is not None
        _check_top(sequence.topk, expected)
        chosen = (sequence.topk.token_ids == sequence.tokens[:, None]).argmax(axis=1)
        np.testing.assert_array_equal(sequence.topk.logprobs[np.arange(9), chosen], sequence.logprobs)
    assert _ask(llama, params=params).sequences[0].topk is None


def _check_top(top: TopK, expected: Any, skip: int = 0) -> None:
    k = top.token_ids.shape[1]
    assert top.logprobs.shape == top.token_ids.shape == (len(expected) + skip, k)
    order = np.argsort(-expected, axis=1)[:, :k]
    np.testing.assert_array_equal(top.token_ids[skip:], order)
    np.testing.assert_allclose(top.logprobs[skip:], np.take_along_axis(expected, order, 1), atol=2e-5)


def test_logprobs_of_chosen_ids(llama: TinyModel) -> None:
    expected = _logprobs(llama, PROMPT)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (19, 5))
    ids[:7] = -1
    ids[10, 2:] = -1
    found = _ask(llama, target_prompt_logprobs=ids).target_prompt_logprobs
    assert found is not None
    assert found.dtype == np.float32
    cells = np.take_along_axis(expected[:-1], ids.clip(0), 1)
    np.testing.assert_allclose(found, np.where(ids < 0, 0.0, cells), atol=2e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_alternatives_are_independent_draws_at_the_requests_temperature(llama: TinyModel, temperature: float) -> None:
    prompt, draws = PROMPT[:3], 3000
    params = SamplingParams(1, temperature, seed=6)
    alternatives = _ask(llama, prompt=prompt, params=params, prompt_alt_tokens_k=draws).prompt_alt_tokens
    assert isinstance(alternatives, AltTokens)
    assert alternatives.token_ids.shape == alternatives.logprobs.shape == (2, draws)
    logprobs = _logprobs(llama, prompt)
    for row in range(2):
        ids = alternatives.token_ids[row]
        np.testing.assert_allclose(alternatives.logprobs[row], logprobs[row, ids], atol=2e-5)
        weights = np.exp(logprobs[row] / temperature)
        _assert_drawn_from(weights / weights.sum(), ids)
    again = _ask(llama, prompt=prompt, params=params, prompt_alt_tokens_k=draws).prompt_alt_tokens
    assert again is not None
    np.testing.assert_array_equal(again.token_ids, alternatives.token_ids)


def _assert_drawn_from(probabilities: Any, ids: Any) -> None:
    expected = len(ids) * probabilities
    observed = np.bincount(ids, minlength=VOCABULARY)
    common = expected >= 5
    pooled = np.append(expected[common], expected[~common].sum())
    assert chisquare(np.append(observed[common], observed[~common].sum()), pooled).pvalue > 1e-3


def test_a_greedy_request_has_the_likeliest_tokens_as_alternatives(llama: TinyModel) -> None:
    params = SamplingParams(1, temperature=0)
    alternatives = _ask(llama, params=params, prompt_alt_tokens_k=2).prompt_alt_tokens
    assert alternatives is not None
    best = _logprobs(llama, PROMPT)[:-1].argmax(axis=1)
    np.testing.assert_array_equal(alternatives.token_ids, np.stack([best, best], axis=1))


def test_a_prompt_as_long_as_the_context_can_be_scored(llama: TinyModel) -> None:
    prompt = tiny.tokens(CONTEXT, seed=1)
    found = _ask(llama, prompt=prompt, prompt_logprobs=True).prompt_logprobs
    assert found is not None
    expected = _logprobs(llama, prompt)[np.arange(CONTEXT - 1), prompt[1:]]
    np.testing.assert_allclose(found[1:], expected, atol=2e-5)


def test_every_field_at_once_on_an_adapter(llama: TinyModel, tmp_path: Path) -> None:
    """The scores are of the snapshot, and asking for one does not change another."""
    backend = llama.backend()
    tiny.create(backend, llama)
    backend.save_adapter("m", tmp_path)
    ids = np.tile(np.arange(4), (19, 1))
    request = SampleRequest(llama.name, tmp_path, PROMPT, 2, ONE, True, None, 3, 3, ids, 2)
    everything, alone, plain = backend.sample(
        [request, SampleRequest(llama.name, tmp_path, PROMPT, 2, ONE, True), replace(request, adapter=None)]
    )
    assert isinstance(everything, SampleResult)
    assert isinstance(alone, SampleResult)
    assert isinstance(plain, SampleResult)
    np.testing.assert_array_equal(everything.prompt_logprobs, alone.prompt_logprobs)
    assert np.abs(everything.prompt_logprobs[1:] - plain.prompt_logprobs[1:]).max() > 1e-2  # type: ignore[index]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"topk_prompt_logprobs": -1}, "topk_prompt_logprobs must be from 0 to 101, found -1"),
        ({"topk_sample_logprobs": VOCABULARY + 1}, "topk_sample_logprobs must be from 0 to 101, found 102"),
        ({"prompt_alt_tokens_k": MOST_CELLS // 10}, "prompt_alt_tokens_k must be at most .* for 20 positions"),
        ({"prompt_logprobs_last_n": 3}, "prompt_logprobs_last_n must be absent unless prompt logprobs are asked for"),
        ({"prompt_logprobs": True, "prompt_logprobs_last_n": 20}, "must be from 1 to 19 for this prompt, found 20"),
        ({"target_prompt_logprobs": np.zeros((20, 1), np.int64)}, r"of shape \[19, K\].*found \[20, 1\]"),
        ({"target_prompt_logprobs": np.full((19, 1), VOCABULARY)}, "token ids from 0 to 100, or -1, found 101"),
        ({"target_prompt_logprobs": np.full((19, 1), -2)}, "token ids from 0 to 100, or -1, found -2"),
    ],
)
def test_scores_that_cannot_be_given_are_refused(llama: TinyModel, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        _ask(llama, **fields)
