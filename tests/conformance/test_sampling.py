"""Sampling through the stock SDK."""

import numpy as np
import pytest
import tinker
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


def test_what_cannot_be_done_is_refused_in_words(sampler: tinker.SamplingClient) -> None:
    refused = {
        "topk_prompt_logprobs": sampler.sample(prompt(), 1, GREEDY, topk_prompt_logprobs=3),
        "topk_sample_logprobs": sampler.sample(prompt(), 1, GREEDY, topk_sample_logprobs=3),
        "prompt_alt_tokens_k": sampler.sample(prompt(), 1, GREEDY, prompt_alt_tokens_k=2),
        "num_samples": sampler.sample(prompt(), 0, GREEDY),
        "image": sampler.sample(types.ModelInput(chunks=[types.ImageChunk(data=b"png", format="png")]), 1, GREEDY),
        "1024": sampler.sample(prompt([1] * 1025), 1, GREEDY),
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
