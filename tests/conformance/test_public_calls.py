"""The deprecated spellings of the SDK's calls, and a look back at what was called; `conftest.py` puts it last."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import tinker
from tinker import types

from tests.conformance.data import prompt, supervised
from tests.conformance.public_calls import all_public
from tests.conformance.test_training_loop import ADAM
from tests.servers import MODEL, SpindleServer

FOLDER = Path(__file__).parent
GREEDY = types.SamplingParams(max_tokens=3, temperature=0.0)

NOT_CALLED = {
    "TrainingClient.get_tokenizer": "called in a process of its own by `test_service.py`",
    "SamplingClient.get_tokenizer": "the same",
    "SamplingClient.on_queue_state_change": "the SDK calls it, after a poll that ended without a result",
}
"""Public methods that no test calls in this process, with the reason."""

pytestmark = pytest.mark.filterwarnings("ignore:DEPRECATED:FutureWarning")


def likelihood_loss(_: Any, likelihoods: list[Any]) -> tuple[Any, dict[str, float]]:
    return -sum(values.sum() for values in likelihoods), {"custom": 1.0}


def test_the_deprecated_ways_to_train(service: tinker.ServiceClient) -> None:
    async def loop() -> None:
        training = await service.create_lora_training_client_async(base_model=MODEL, rank=4, seed=1)
        assert (await training.get_info_async()).lora_rank == 4
        forward = await training.forward_async([supervised()], "cross_entropy")
        gradient = await training.forward_backward_async([supervised()], "cross_entropy")
        step = await training.optim_step_async(ADAM)
        assert (await forward).metrics["loss:sum"] == pytest.approx((await gradient).metrics["loss:sum"])
        assert await step is not None
        custom = await training.forward_backward_custom_async([supervised()], likelihood_loss)
        assert (await custom.result_async()).metrics["custom"] == 1.0
        saved = await (await training.save_state_async("async"))
        snapshot = await (await training.save_weights_for_sampler_async("async"))
        external = await (await training.save_weights_external_async("async"))
        assert external.path.endswith("/external_weights/async")
        for load in (training.load_state_async, training.load_state_with_optimizer_async):
            assert (await (await load(saved.path))).path == saved.path
        for restore in (
            service.create_training_client_from_state_async,
            service.create_training_client_from_state_with_optimizer_async,
        ):
            assert (await restore(saved.path)).get_info().lora_rank == 4
        by_path = await training.create_sampling_client_async(snapshot.path)
        current = await training.save_weights_and_get_sampling_client_async()
        ours, theirs = [await one.sample_async(prompt(), 1, GREEDY) for one in (by_path, current)]
        assert ours.sequences[0].tokens == theirs.sequences[0].tokens

    asyncio.run(loop())


def test_the_deprecated_ways_to_sample(service: tinker.ServiceClient, server: SpindleServer) -> None:
    rest = tinker.RestClient(base_url=server.url, api_key=server.key)

    async def loop() -> None:
        sampler = await service.create_sampling_client_async(base_model=MODEL)
        assert await sampler.get_base_model_async() == MODEL
        session = sampler._sampling_session_id
        assert (await rest.get_sampler_async(session)).base_model == MODEL
        scores = await sampler.compute_logprobs_async(prompt())
        assert scores[0] is None
        capabilities = await service.get_server_capabilities_async()
        assert [model.model_name for model in capabilities.supported_models] == [MODEL]

    asyncio.run(loop())


def test_loading_into_a_client_that_trains_already(training: tinker.TrainingClient) -> None:
    path = training.save_state("start").result(60).path
    training.forward_backward([supervised()], "cross_entropy")
    training.optim_step(ADAM).result(60)
    moved = training.forward([supervised()], "cross_entropy").result(60).metrics["loss:sum"]
    for load, step in ((training.load_state, 0), (training.load_state_with_optimizer, 0)):
        assert load(path).result(60).path == path
        back = training.forward([supervised()], "cross_entropy").result(60).metrics["loss:sum"]
        assert abs(back - moved) > 1e-2
        assert training.get_info().optimizer_config.model_dump()["step"] == step


def test_every_public_method_of_the_sdk_was_called(called: set[str], request: pytest.FixtureRequest) -> None:
    """Or is excused above. A new SDK brings new names here."""
    collected = {item.path for item in request.session.items}
    if not collected >= set(FOLDER.glob("test_*.py")) or request.config.getoption("keyword"):
        pytest.skip("only some of the conformance tests run")
    assert all_public() - called <= set(NOT_CALLED)
    assert set(NOT_CALLED) <= all_public()
