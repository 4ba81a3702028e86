"""Service clients: what they tell the server about themselves, how they end, and what one hands to other processes."""

import asyncio
import pickle
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import tinker
from tinker import types

from tests.conformance.data import TEXT, prompt, supervised
from tests.servers import MODEL, SpindleServer

GREEDY = types.SamplingParams(max_tokens=4, temperature=0.0)


def test_a_session_keeps_what_the_client_said_about_it(server: SpindleServer) -> None:
    rest = tinker.RestClient(base_url=server.url, api_key=server.key)
    with tinker.ServiceClient(
        user_metadata={"recipe": "conformance"}, display_name="Shown", base_url=server.url, api_key=server.key
    ) as service:
        assert service.get_console_url().startswith("https://")
        training = service.create_lora_training_client(base_model=MODEL, rank=2, user_metadata={"arm": "a"}).result(60)
        session = training.model_id.partition(":")[0]
        assert session in service.get_console_url()
        assert training.get_console_url() != service.get_console_url()
        told = rest.get_session(session).result(60)
        assert told.user_metadata == {"recipe": "conformance"}
        assert told.display_name == "Shown"
        assert told.training_run_ids == [training.model_id]
        assert rest.get_training_run(training.model_id).result(60).user_metadata == {"arm": "a"}
        service.get_telemetry()
        training.get_telemetry()
    beat = httpx.post(
        f"{server.url}/api/v1/session_heartbeat", json={"session_id": session}, headers={"X-API-Key": server.key}
    )
    assert beat.status_code == 410
    assert rest.get_training_run(training.model_id).result(60).training_run_id == training.model_id


def test_headers_of_the_callers_own_are_accepted(server: SpindleServer) -> None:
    with tinker.ServiceClient(
        base_url=server.url, api_key=server.key, default_headers_overrides={"X-Team": "conformance"}
    ) as service:
        sampler = service.create_sampling_client(base_model=MODEL).result(60)
        assert sampler.get_base_model() == MODEL


@pytest.mark.filterwarnings("ignore:DEPRECATED:FutureWarning")
def test_what_the_server_can_do_is_told_in_each_way(service: tinker.ServiceClient, server: SpindleServer) -> None:
    (model,) = (
        tinker.RestClient(base_url=server.url, api_key=server.key).get_server_capabilities().result(60).supported_models
    )
    assert (model.model_name, model.max_context_length, model.trainable, model.sampleable) == (MODEL, 1024, True, True)
    assert service.get_server_capabilities().supported_models == [model]
    assert service.create_rest_client().get_server_capabilities().result(60).supported_models == [model]
    assert service.holder.get_session_id()


def test_the_kinds_of_futures_give_the_same(service: tinker.ServiceClient) -> None:
    creation = service.create_lora_training_client(base_model=MODEL, rank=2, seed=1)
    training = creation.future().result(60)
    assert creation.result(1) is training

    async def awaited() -> tuple[tinker.TrainingClient, float, float]:
        gradient = training.forward([supervised()], "cross_entropy")
        return (
            await creation.result_async(),
            (await gradient).metrics["loss:sum"],
            (await gradient.result_async(60)).metrics["loss:sum"],
        )

    client, *losses = asyncio.run(awaited())
    assert client is training
    again = training.forward([supervised()], "cross_entropy")
    assert losses == [again.future().result(60).metrics["loss:sum"]] * 2
    assert asyncio.run(again.coroutine()).metrics["loss:sum"] == losses[0]


def test_the_tokenizer_comes_by_the_name_of_the_model(server: SpindleServer) -> None:
    """In a process of its own: where tokenizers are looked for is read once, when the hub client is imported."""
    script = (
        "import tinker\n"
        "with tinker.ServiceClient() as service:\n"
        f"    training = service.create_lora_training_client(base_model={MODEL!r}, rank=2).result(60)\n"
        f"    sampler = service.create_sampling_client(base_model={MODEL!r}).result(60)\n"
        "    print(training.get_tokenizer().decode(sampler.get_tokenizer().encode('Hello, world')))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=server.client_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout == "Hello, world\n", ended.stderr


def test_a_sampler_travels_to_other_clients(training: tinker.TrainingClient, server: SpindleServer) -> None:
    """Pickled, or as a handle without the key; clones do not collide with the original or with each other."""
    sampler = training.save_weights_and_get_sampling_client().result(60)
    expected = sampler.sample(prompt(), 1, GREEDY).result(60).sequences[0]
    handle = sampler.get_sampler_handle()
    assert server.key not in handle
    clones = [
        pickle.loads(pickle.dumps(sampler)),
        pickle.loads(pickle.dumps(sampler)),
        tinker.SamplingClient.from_sampler_handle(handle, api_key=server.key),
    ]
    samples = [clone.sample(prompt(), 2, GREEDY).result(60) for clone in (sampler, *clones)]
    assert [sequence.tokens for sample in samples for sequence in sample.sequences] == [expected.tokens] * 8
    identities = {sequence.sequence_id for sample in samples for sequence in sample.sequences}
    assert len(identities) == 8


PICKLED = """
import pickle, sys
from pathlib import Path
from tests.conformance.data import prompt

sampler = pickle.loads(Path(sys.argv[1]).read_bytes())
print(*sampler.compute_logprobs(prompt()).result(60)[1:])
"""


def test_another_process_samples_from_this_ones_snapshot(
    training: tinker.TrainingClient, server: SpindleServer, tmp_path: Path
) -> None:
    sampler = training.save_weights_and_get_sampling_client().result(60)
    (tmp_path / "sampler").write_bytes(pickle.dumps(sampler))
    ended = subprocess.run(
        [sys.executable, "-c", PICKLED, str(tmp_path / "sampler")],
        env=server.client_environment(),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    scores = sampler.compute_logprobs(types.ModelInput.from_ints(TEXT)).result(60)
    assert [float(value) for value in ended.stdout.split()] == pytest.approx(scores[1:], abs=1e-5)


def test_a_session_gets_a_sampler_of_its_own_in_each_way(
    service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    path = training.save_weights_for_sampler("each-way").result(60).path
    by_path = training.create_sampling_client(path).result(60)
    created = tinker.SamplingClient.create(service.holder, model_path=path).result(60)
    scores = [client.compute_logprobs(prompt()).result(60) for client in (by_path, created)]
    assert scores[0][1:] == pytest.approx(scores[1][1:])
    assert created.get_base_model() == MODEL
    created.get_telemetry()


def test_samplers_in_flight_follow_the_training_and_snapshots_do_not(training: tinker.TrainingClient) -> None:
    fixed = training.save_weights_and_get_sampling_client().result(60)
    first = training.save_weights_and_get_sampling_client(kind="inflight").result(60)
    before = first.compute_logprobs(prompt()).result(60)[1:]
    assert before == pytest.approx(fixed.compute_logprobs(prompt()).result(60)[1:], abs=1e-5)
    training.forward_backward([supervised()], "cross_entropy")
    training.optim_step(types.AdamParams(learning_rate=3e-2)).result(60)
    second = training.save_weights_and_get_sampling_client(kind="inflight").result(60)
    after = second.compute_logprobs(prompt()).result(60)[1:]
    assert after != pytest.approx(before, abs=1e-2)
    assert first.compute_logprobs(prompt()).result(60)[1:] == pytest.approx(after, abs=1e-5)
    assert fixed.compute_logprobs(prompt()).result(60)[1:] == pytest.approx(before, abs=1e-5)
