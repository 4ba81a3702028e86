"""Sampling through the stock SDK."""

import numpy as np
import pytest
import tinker
import torch
from tinker import types

from tests.conformance.data import TEXT, prompt
from tests.servers import MODEL

GREEDY = types.SamplingParams(max_tokens=6, temperature=0.0)


@pytest.fixture
def sampler(service: tinker.ServiceClient) -> tinker.SamplingClient:
    return service.create_sampling_client(base_model=MODEL).result(30)


def test_a_sample_has_tokens_logprobs_and_ids(sampler: tinker.SamplingClient) -> None:
    result = sampler.sample(prompt(), 3, types.SamplingParams(max_tokens=5, seed=1, stop=[])).result(60)
    assert [len(sequence.tokens) for sequence in result.sequences] == [5, 5, 5]
    assert {sequence.stop_reason for sequence in result.sequences} == {"length"}
    assert len({tuple(sequence.tokens) for sequence in result.sequences}) == 3
    assert len({sequence.sequence_id for sequence in result.sequences}) == 3
    for sequence in result.sequences:
        assert sequence.logprobs is not None
        assert len(sequence.logprobs) == 5
        assert max(sequence.logprobs) <= 0


def test_a_seed_gives_the_same_tokens_whoever_else_is_served(sampler: tinker.SamplingClient) -> None:
    params = types.SamplingParams(max_tokens=8, seed=4)
    alone = sampler.sample(prompt(), 2, params).result(60)
    others = [sampler.sample(prompt(TEXT[:number]), 1, params) for number in range(2, 9)]
    again = sampler.sample(prompt(), 2, params).result(60)
    for other in others:
        other.result(60)
    assert [sequence.tokens for sequence in again.sequences] == [sequence.tokens for sequence in alone.sequences]


def test_a_stop_token_ends_the_sample_and_is_part_of_it(sampler: tinker.SamplingClient) -> None:
    free = sampler.sample(prompt(), 1, GREEDY).result(60).sequences[0].tokens
    stop = free[2]
    params = types.SamplingParams(max_tokens=6, temperature=0.0, stop=[stop])
    stopped = sampler.sample(prompt(), 1, params).result(60).sequences[0]
    assert stopped.tokens == free[: free.index(stop) + 1]
    assert stopped.stop_reason == "stop"


def test_prompts_may_come_in_several_chunks(sampler: tinker.SamplingClient) -> None:
    chunks: list[types.ModelInputChunk] = [
        types.EncodedTextChunk(tokens=TEXT[:4]),
        types.EncodedTextChunk(tokens=TEXT[4:]),
    ]
    joined = sampler.sample(types.ModelInput(chunks=chunks), 1, GREEDY).result(60)
    assert joined.sequences[0].tokens == sampler.sample(prompt(), 1, GREEDY).result(60).sequences[0].tokens


def test_without_stops_the_end_token_ends_and_with_an_empty_list_nothing_does(sampler: tinker.SamplingClient) -> None:
    """The tiny model's end token is 0: 600 draws from about 257 tokens hold it almost surely."""
    free = types.SamplingParams(max_tokens=600, seed=8, stop=[])
    endless = sampler.sample(prompt(), 1, free).result(60).sequences[0]
    assert (len(endless.tokens), endless.stop_reason) == (600, "length")
    assert 0 in endless.tokens
    ended = sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=600, seed=8)).result(60).sequences[0]
    assert ended.tokens == endless.tokens[: endless.tokens.index(0) + 1]
    assert ended.stop_reason == "stop"


def test_a_stop_text_ends_the_sample_and_is_part_of_it(sampler: tinker.SamplingClient) -> None:
    """Token n + 1 of the tiny vocabulary is letter n of the byte alphabet, which begins with `!`."""
    free = sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=200, seed=8, stop=[])).result(60).sequences[0]
    place = next(index for index, token in enumerate(free.tokens) if 1 <= token <= 94 and index > 3)
    letter = chr(ord("!") + free.tokens[place] - 1)
    for stop in (letter, ["never to be seen", letter]):
        params = types.SamplingParams(max_tokens=200, seed=8, stop=stop)
        stopped = sampler.sample(prompt(), 1, params).result(60).sequences[0]
        assert stopped.tokens == free.tokens[: free.tokens.index(free.tokens[place]) + 1]
        assert stopped.stop_reason == "stop"
        assert stopped.logprobs is not None
        assert len(stopped.logprobs) == len(stopped.tokens)


def test_without_a_limit_the_context_is_filled(sampler: tinker.SamplingClient) -> None:
    long = (TEXT * 80)[:1010]
    sample = sampler.sample(prompt(long), 1, types.SamplingParams(stop=[], seed=1)).result(60).sequences[0]
    assert len(sample.tokens) == 1024 - 1010
    assert sample.stop_reason == "length"


def test_temperature_and_the_cuts_narrow_what_is_drawn(sampler: tinker.SamplingClient) -> None:
    greedy = sampler.sample(prompt(), 1, GREEDY).result(60).sequences[0].tokens
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        params = types.SamplingParams(max_tokens=6, seed=3, **narrow)
        assert sampler.sample(prompt(), 1, params).result(60).sequences[0].tokens == greedy
    wide = sampler.sample(prompt(), 16, types.SamplingParams(max_tokens=6, seed=3, stop=[])).result(60)
    assert len({tuple(sequence.tokens) for sequence in wide.sequences}) == 16


def test_the_likeliest_tokens_at_each_place_of_the_prompt(sampler: tinker.SamplingClient) -> None:
    result = sampler.sample(prompt(), 1, GREEDY, include_prompt_logprobs=True, topk_prompt_logprobs=5).result(60)
    scores, rows = result.prompt_logprobs, result.topk_prompt_logprobs
    assert scores is not None
    assert rows is not None
    assert scores[0] is None
    assert rows[0] is None
    assert len(scores) == len(rows) == len(TEXT)
    everything = sampler.sample(prompt(), 1, GREEDY, topk_prompt_logprobs=256).result(60).topk_prompt_logprobs
    assert everything is not None
    for place in range(1, len(TEXT)):
        row, whole = rows[place], everything[place]
        assert row is not None
        assert whole is not None
        assert len(row) == 5
        assert [value for _, value in row] == sorted((value for _, value in row), reverse=True)
        assert np.allclose(row, whole[:5], atol=1e-5)
        assert dict(whole).get(TEXT[place], scores[place]) == pytest.approx(scores[place], abs=1e-5)
        assert sum(np.exp(value) for _, value in whole) == pytest.approx(1.0, abs=0.05)


def test_the_likeliest_tokens_at_each_place_of_the_sample(sampler: tinker.SamplingClient) -> None:
    result = sampler.sample(prompt(), 2, types.SamplingParams(max_tokens=5, seed=2, stop=[]), topk_sample_logprobs=3)
    greedy = sampler.sample(prompt(), 1, GREEDY, topk_sample_logprobs=3).result(60).sequences[0]
    for sequence in (*result.result(60).sequences, greedy):
        assert sequence.topk_logprobs is not None
        assert sequence.logprobs is not None
        for token, value, row in zip(sequence.tokens, sequence.logprobs, sequence.topk_logprobs, strict=True):
            assert row is not None
            assert len(row) == 3
            assert dict(row).get(token, value) == pytest.approx(value, abs=1e-5)
            assert value <= row[0][1] + 1e-5
    assert greedy.topk_logprobs is not None
    assert [row[0][0] for row in greedy.topk_logprobs if row] == list(greedy.tokens)


def test_the_likelihood_of_chosen_tokens_dense_and_sparse(sampler: tinker.SamplingClient) -> None:
    ids = torch.full((len(TEXT) - 1, 2), -1, dtype=torch.int64)
    ids[3:, 0] = torch.tensor(TEXT[4:])
    ids[5, 1] = 77
    dense, sparse = (
        sampler.sample(prompt(), 1, GREEDY, include_prompt_logprobs=True, target_prompt_logprobs=targets).result(60)
        for targets in (types.TensorData.from_torch(ids), types.TensorData.from_torch_sparse(ids, pad_value=-1))
    )
    scores = dense.prompt_logprobs
    assert scores is not None
    assert dense.target_prompt_logprobs is not None
    assert sparse.target_prompt_logprobs is not None
    found = dense.target_prompt_logprobs.to_torch()
    assert found.shape == ids.shape
    assert found[3:, 0].tolist() == pytest.approx(scores[4:], abs=1e-5)
    assert found[ids == -1].tolist() == [0.0] * int((ids == -1).sum())
    whole = sampler.sample(prompt(), 1, GREEDY, topk_prompt_logprobs=257).result(60).topk_prompt_logprobs
    assert whole is not None
    assert whole[6] is not None
    assert float(found[5, 1]) == pytest.approx(dict(whole[6])[77], abs=1e-5)
    assert torch.allclose(sparse.target_prompt_logprobs.to_torch().to_dense(), found, atol=1e-6)


def test_only_the_end_of_the_prompt_is_scored_when_asked(sampler: tinker.SamplingClient) -> None:
    whole = sampler.compute_logprobs(prompt()).result(60)
    end = sampler.sample(prompt(), 1, GREEDY, include_prompt_logprobs=True, prompt_logprobs_last_n=4).result(60)
    assert end.prompt_logprobs is not None
    assert list(end.prompt_logprobs[:-4]) == [None] * (len(TEXT) - 4)
    assert end.prompt_logprobs[-4:] == pytest.approx(whole[-4:], abs=1e-5)


def test_alternatives_to_each_token_of_the_prompt_are_drawn_or_refused_in_words(sampler: tinker.SamplingClient) -> None:
    drawn = sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=1, seed=1), prompt_alt_tokens_k=3)
    try:
        alternatives = drawn.result(60).prompt_alt_tokens
    except tinker.RequestFailedError as refusal:
        assert "prompt_alt_tokens_k" in str(refusal)
        return
    assert alternatives is not None
    tokens, values = alternatives.tokens.to_torch(), alternatives.logprobs.to_torch()
    assert tokens.shape == values.shape == (len(TEXT) - 1, 3)
    assert (values < 0).all()
    assert ((tokens >= 0) & (tokens < 257)).all()


def test_many_samples_at_once_come_back_whole(sampler: tinker.SamplingClient) -> None:
    """Far more than the server runs together."""
    params = [types.SamplingParams(max_tokens=4, seed=seed, stop=[]) for seed in range(300)]
    futures = [sampler.sample(prompt(TEXT[: 2 + seed % 9]), 2, one) for seed, one in enumerate(params)]
    lengths = {len(sequence.tokens) for future in futures for sequence in future.result(120).sequences}
    assert lengths == {4}
    again = sampler.sample(prompt(TEXT[: 2 + 299 % 9]), 2, params[299]).result(60)
    assert [one.tokens for one in again.sequences] == [one.tokens for one in futures[299].result(1).sequences]


def test_what_cannot_be_done_is_refused_in_words(sampler: tinker.SamplingClient) -> None:
    wrong_rows = types.TensorData.from_torch(torch.zeros(3, 1, dtype=torch.int64))
    refused = {
        "num_samples": sampler.sample(prompt(), 0, GREEDY),
        "mage": sampler.sample(types.ModelInput(chunks=[types.ImageChunk(data=b"png", format="png")]), 1, GREEDY),
        "1024": sampler.sample(prompt([1] * 1025), 1, GREEDY),
        "token id 257": sampler.sample(prompt([1, 2, 257]), 1, GREEDY),
        "temperature": sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=1, temperature=-1.0)),
        "top_p": sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=1, top_p=0.0)),
        "target_prompt_logprobs": sampler.sample(prompt(), 1, GREEDY, target_prompt_logprobs=wrong_rows),
        "max_tokens": sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=0)),
    }
    for words, future in refused.items():
        with pytest.raises(tinker.RequestFailedError, match=words) as refusal:
            future.result(60)
        assert refusal.value.category is types.RequestErrorCategory.User


def test_a_named_snapshot_is_sampled_by_its_path(
    service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    path = training.save_weights_for_sampler("named").result(60).path
    assert path == f"tinker://{training.model_id}/sampler_weights/named"
    client = service.create_sampling_client(model_path=path).result(60)
    assert client.get_base_model() == MODEL
    before = client.compute_logprobs(prompt()).result(60)
    for _ in range(3):
        from tests.conformance.data import supervised

        training.forward_backward([supervised()], "cross_entropy")
        training.optim_step(types.AdamParams(learning_rate=1e-2)).result(60)
    assert client.compute_logprobs(prompt()).result(60) == before
    with pytest.raises(tinker.RequestFailedError, match="exists already"):
        training.save_weights_for_sampler("named").result(60)
    later = training.save_weights_and_get_sampling_client().result(60).compute_logprobs(prompt()).result(60)
    assert not np.allclose(np.asarray(later[1:], float), np.asarray(before[1:], float), atol=1e-3)


def test_paths_that_lead_nowhere_are_refused(service: tinker.ServiceClient, training: tinker.TrainingClient) -> None:
    run = training.model_id
    with pytest.raises(tinker.NotFoundError, match="There is no checkpoint"):
        service.create_sampling_client(model_path=f"tinker://{run}/sampler_weights/none").result(60)
    with pytest.raises(tinker.BadRequestError, match="is not a checkpoint path"):
        service.create_sampling_client(model_path="tinker://../../etc").result(60)
