"""Where servers for this SDK go wrong: one test for each thing that ends a client's run, or hangs it, without a word.

The numbers are those of the checklist that the protocol's description ends with.
"""

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyrage
import pytest
import tinker
import torch
from safetensors.numpy import load as read_safetensors
from tinker import types

from tests.conformance import raw
from tests.conformance.data import TEXT, prompt, supervised, tensor
from tests.conformance.test_training_loop import ADAM
from tests.servers import MODEL, SpindleServer

Json = dict[str, Any]


@pytest.fixture
def session(http: httpx.Client) -> str:
    return raw.open_session(http)


@pytest.fixture(scope="session", autouse=True)
def poll_of_a_promise_that_never_ends(server: SpindleServer) -> Iterator[list[tuple[float, httpx.Response]]]:
    """Held beside the other tests, from the first one here on: the seconds it took, and the reply."""
    held: list[tuple[float, httpx.Response]] = []

    def poll() -> None:
        with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.key}, timeout=60) as http:
            session = raw.open_session(http)
            parked = raw.optim_step(http, raw.create(http, session), 2)
            begun = time.monotonic()
            reply = http.post("/retrieve_future", json={"request_id": parked.json()["request_id"]})
            held.append((time.monotonic() - begun, reply))
            http.post(f"/sessions/{session}/finish", json={"reason": {"type": "success"}})

    thread = threading.Thread(target=poll)
    thread.start()
    yield held
    thread.join(60)


def test_01_the_id_of_a_model_is_made_of_its_session_and_number_and_routes_take_its_colons(
    http: httpx.Client, session: str
) -> None:
    model = raw.create(http, session, 7)
    assert model == f"{session}:train:7"
    assert http.get(f"/training_runs/{model}").json()["training_run_id"] == model
    assert http.get(f"/training_runs/{session}%3Atrain%3A7").json()["training_run_id"] == model
    saved = raw.ended(http, http.post("/save_weights", json={"model_id": model, "seq_id": 1, "path": "a"}))["path"]
    load = {"session_id": session, "model_seq_id": 8, "path": saved, "optimizer": True}
    assert raw.ended(http, http.post("/load_weights", json=load)).get("model_id", f"{session}:train:8").endswith(":8")
    assert http.post("/get_info", json={"model_id": f"{session}:train:8"}).status_code == 200


def test_02_submits_never_wait_never_repeat_and_never_burn_a_number(http: httpx.Client, session: str) -> None:
    """Nonsense is a promise that fails; the numbers behind it run, in order, whatever came first."""
    model = raw.create(http, session)
    short = supervised()
    short.loss_fn_inputs["weights"] = tensor([1.0], np.float32)
    begun = time.monotonic()
    submitted = {
        6: raw.optim_step(http, model, 6),
        5: http.post("/save_weights", json={"model_id": model, "seq_id": 5, "path": "a/b"}),
        4: http.post("/optim_step", json={"model_id": model, "seq_id": 4, "optimizer_params": {"type": "dimuon"}}),
        3: raw.forward_backward(http, model, 3, [short]),
        2: raw.forward_backward(http, model, 2, [supervised()], "unheard_of"),
    }
    assert time.monotonic() - begun < 5
    assert all(reply.status_code == 200 for reply in submitted.values())
    assert raw.optim_step(http, model, 6).json() == submitted[6].json()
    submitted[1] = raw.optim_step(http, model, 1)
    for number in (2, 3, 4, 5):
        assert raw.ended(http, submitted[number])["category"] == "user"
    steps = [raw.ended(http, submitted[number])["metrics"]["optimizer_step"] for number in (1, 6)]
    assert steps == [1, 2]


def test_03_tensors_come_as_exactly_this_type_and_no_success_has_an_error_in_it(
    http: httpx.Client, session: str
) -> None:
    model = raw.create(http, session)
    reply = raw.retrieved(http, raw.forward_backward(http, model, 1, [supervised()]), raw.PROTOBUF)
    assert reply.headers["content-type"] == "application/x-protobuf"
    sampler = raw.open_sampler(http, session)
    reply = raw.retrieved(http, raw.sample(http, sampler, 0, TEXT), raw.PROTOBUF)
    assert reply.headers["content-type"] == "application/x-protobuf"
    successes = [
        raw.ended(http, raw.optim_step(http, model, 2)),
        raw.ended(http, http.post("/save_weights", json={"model_id": model, "seq_id": 3, "path": "a"})),
        raw.ended(
            http,
            http.post(
                "/save_weights_for_sampler",
                json={"model_id": model, "seq_id": 4, "sampling_session_seq_id": 1, "kind": "snapshot"},
            ),
        ),
    ]
    for answer in successes:
        assert not {"error", "status"} & set(answer)
        assert answer.get("type") != "try_again"


@pytest.mark.parametrize("forward_only", [False, True])
def test_04_metrics_have_one_colon_and_the_sum_of_the_loss_is_always_there(
    http: httpx.Client, session: str, forward_only: bool
) -> None:
    model = raw.create(http, session)
    silent = supervised(weight=0.0)
    for number, data in enumerate(([supervised()], [silent], [supervised(), silent]), 1):
        promise = raw.forward_backward(http, model, number, data, forward_only=forward_only)
        metrics = raw.gradient(http, promise).metrics
        assert "loss:sum" in metrics
        assert all(name.count(":") == 1 for name in metrics)


def test_05_a_promise_of_samples_names_each_of_them(http: httpx.Client, session: str) -> None:
    sampler = raw.open_sampler(http, session)
    for seq_id, (samples, params) in enumerate(((1, {}), (3, {}), (2, {"temperature": -1.0}))):
        ids = raw.sample(http, sampler, seq_id, TEXT, samples, **params).json()["sample_sequence_ids"]
        assert len(ids) == len(set(ids)) == samples
        assert all(isinstance(name, str) for name in ids)


def test_06_a_400_has_a_body_and_its_length(http: httpx.Client, session: str) -> None:
    """Without them the client takes it for a proxy's, and asks again and again."""
    refused = [
        http.post("/optim_step", content=b"{"),
        http.post("/asample", json={}),
        http.post("/create_session", content=b"[]"),
        http.post("/create_model", json={"session_id": session}),
        http.post("/forward_backward", content=b"\xff", headers={"Content-Type": raw.PROTOBUF}),
        http.post("/retrieve_future", json={}),
        http.get("/training_runs", params={"limit": "many"}),
        http.put(f"/training_runs/{session}:train:0/checkpoints/weights/a/ttl", json={"ttl_seconds": "long"}),
    ]
    for reply in refused:
        assert reply.status_code == 400, reply.request.url
        assert "transfer-encoding" not in reply.headers
        assert int(reply.headers["content-length"]) == len(reply.content) > 20
        assert reply.json()["detail"].endswith((".", "?"))


def test_08_links_to_files_open_without_a_key_for_some_minutes_and_their_content_may_be_encrypted(
    training: tinker.TrainingClient, server: SpindleServer
) -> None:
    rest = tinker.RestClient(base_url=server.url, api_key=server.key)
    identity = pyrage.x25519.Identity.generate()
    plain = training.save_weights_external("plain").result(60).path
    sealed = training.save_weights_external("sealed", age_encryption_recipients=[str(identity.to_public())])
    files: list[dict[str, bytes]] = []
    for path in (plain, sealed.result(60).path):
        links = rest.get_external_weights_urls(path).result(60)
        assert links.expires.tzinfo is not None
        assert links.expires > datetime.now(UTC) + timedelta(minutes=5)
        assert all(url.startswith(f"{server.url}/") for url in links.urls.values())
        contents = {name: urllib.request.urlopen(url, timeout=10).read() for name, url in links.urls.items()}
        files.append(contents)
        for url in links.urls.values():
            for spoiled in (url[:-1] + ("0" if url[-1] != "0" else "1"), url.partition("?")[0]):
                assert httpx.get(spoiled).status_code in (403, 404)
    assert all(name.endswith(".age") for name in files[1])
    opened = {name.removesuffix(".age"): pyrage.decrypt(content, [identity]) for name, content in files[1].items()}
    assert opened == files[0]


def test_09_the_head_is_named_as_the_cookbook_knows_it_and_alpha_is_32(
    training: tinker.TrainingClient, server: SpindleServer
) -> None:
    path = training.save_weights_external("names").result(60).path
    rest = tinker.RestClient(base_url=server.url, api_key=server.key)
    urls = rest.get_external_weights_urls(path).result(60).urls
    tensors = read_safetensors(urllib.request.urlopen(urls["adapter_model.safetensors"], timeout=10).read())
    config = httpx.get(urls["adapter_config.json"]).json()
    assert tensors["base_model.model.model.unembed_tokens.lora_A.weight"].shape == (4, 32)
    assert tensors["base_model.model.model.unembed_tokens.lora_B.weight"].shape == (257, 4)
    assert tensors["base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"].shape == (4, 32)
    assert not any("lm_head" in name for name in tensors)
    assert (config["lora_alpha"], config["r"], config["peft_type"]) == (32, 4, "LORA")
    assert config["base_model_name_or_path"] == MODEL


def test_10_metadata_is_text_times_know_their_zone_and_old_clients_see_no_external_rows(
    http: httpx.Client, session: str, training: tinker.TrainingClient
) -> None:
    numbered = raw.open_session(http, user_metadata={"a": "1"})
    assert http.get(f"/sessions/{numbered}").json()["user_metadata"] == {"a": "1"}
    training.save_weights_external("newer", ttl_seconds=3600).result(60)
    training.save_state("every").result(60)

    def rows(version: str) -> list[Json]:
        reply = http.get(
            f"/training_runs/{training.model_id}/checkpoints", headers={"X-Stainless-Package-Version": version}
        )
        listed: list[Json] = reply.json()["checkpoints"]
        return listed

    assert {row["checkpoint_type"] for row in rows("0.38.0")} == {"external", "training"}
    assert {row["checkpoint_type"] for row in rows("0.20.0")} == {"training"}
    for row in rows("0.38.0"):
        for field in ("time", "expires_at"):
            assert row.get(field) is None or datetime.fromisoformat(row[field]).tzinfo is not None
    assert any(row.get("expires_at") for row in rows("0.38.0"))


def test_11_the_first_question_is_answered_at_once_to_whoever_has_the_key(server: SpindleServer) -> None:
    begun = time.monotonic()
    for route in ("client/config", "client/dynamic_config"):
        reply = httpx.post(
            f"{server.url}/api/v1/{route}", json={"sdk_version": "0.38.0"}, headers={"X-API-Key": server.key}
        )
        assert reply.status_code == 200
        assert isinstance(reply.json(), dict)
    assert time.monotonic() - begun < 2
    assert server.key.startswith("tml-"), "clients send no other keys"


def test_12_the_key_alone_is_enough_for_clients_that_can_send_nothing_else(server: SpindleServer) -> None:
    script = "import tinker; print(len(tinker.RestClient().get_server_capabilities().result(60).supported_models))"
    cloudflare = {"CLOUDFLARE_ACCESS_CLIENT_ID": "id", "CLOUDFLARE_ACCESS_CLIENT_SECRET": "secret"}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**server.client_environment(), **cloudflare},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout == "1\n", ended.stderr


def test_13_the_stop_token_is_part_of_the_sample_and_an_empty_list_stops_at_nothing(
    service: tinker.ServiceClient,
) -> None:
    sampler = service.create_sampling_client(base_model=MODEL).result(60)
    free = sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=400, seed=8, stop=[])).result(60).sequences[0]
    assert len(free.tokens) == 400
    stop = free.tokens[30]
    params = types.SamplingParams(max_tokens=400, seed=8, stop=[stop])
    stopped = sampler.sample(prompt(), 1, params).result(60).sequences[0]
    assert stopped.tokens == free.tokens[: free.tokens.index(stop) + 1]


def test_14_targets_may_be_sparse_prompts_in_chunks_and_logprobs_have_the_shape_of_the_targets(
    training: tinker.TrainingClient,
) -> None:
    targets = torch.tensor([[token, 0] for token in TEXT[1:]])
    chunks: list[types.ModelInputChunk] = [types.EncodedTextChunk(tokens=[token]) for token in TEXT[:-1]]
    weights = torch.ones(len(TEXT) - 1, 2)
    weights[:, 1] = 0.0
    datum = types.Datum(
        model_input=types.ModelInput(chunks=chunks),
        loss_fn_inputs={
            "target_tokens": types.TensorData.from_torch_sparse(targets),
            "weights": types.TensorData.from_torch_sparse(weights),
        },
    )
    two, one = training.forward([datum, supervised()], "cross_entropy").result(60).loss_fn_outputs
    assert two["logprobs"].to_numpy().shape == (len(TEXT) - 1, 2)
    assert one["logprobs"].to_numpy().shape == (len(TEXT) - 1,)
    assert two["logprobs"].to_numpy()[:, 0] == pytest.approx(one["logprobs"].to_numpy(), abs=1e-5)


def test_15_a_session_that_ended_frees_its_models_keeps_its_checkpoints_and_its_heartbeats_hear_so(
    server: SpindleServer, http: httpx.Client
) -> None:
    with tinker.ServiceClient(base_url=server.url, api_key=server.key) as service:
        training = service.create_lora_training_client(base_model=MODEL, rank=4).result(60)
        path = training.save_state("kept").result(60).path
    session = training.model_id.partition(":")[0]
    assert http.post("/session_heartbeat", json={"session_id": session}).status_code == 410
    assert http.post("/get_info", json={"model_id": training.model_id}).status_code == 404
    assert http.post("/weights_info", json={"tinker_path": path}).json()["base_model"] == MODEL


def test_16_telemetry_is_dropped_for_it_may_hold_secrets(http: httpx.Client, server: SpindleServer) -> None:
    secret = "a-header-that-nobody-should-keep"
    assert http.post("/telemetry", json={"events": [{"x": secret}]}).json() == {"status": "accepted"}
    assert secret not in server.log
    files = [path for path in server.data.rglob("*") if path.is_file()]
    assert files
    assert not any(secret.encode() in path.read_bytes() for path in files)


def test_17_publishing_twice_is_fine_and_a_name_that_is_taken_fails_its_promise(
    http: httpx.Client, session: str
) -> None:
    """Clients ask again for five minutes after a 409."""
    model = raw.create(http, session)
    saves = [http.post("/save_weights", json={"model_id": model, "seq_id": n, "path": "a"}) for n in (1, 2)]
    assert [reply.status_code for reply in saves] == [200, 200]
    assert raw.ended(http, saves[0])["path"]
    assert raw.ended(http, saves[1])["category"] == "user"
    route = f"/training_runs/{model}/checkpoints/weights/a/publish"
    for method in ("POST", "POST", "DELETE", "DELETE"):
        assert http.request(method, route, headers={"Content-Type": "application/json"}).is_success


def test_18_snapshots_without_a_name_do_not_pile_up(server: SpindleServer) -> None:
    """One per step of reinforcement learning; none outlives its session."""

    def snapshots() -> set[Path]:
        return {path for path in server.data.rglob("*.safetensors") if "ephemeral" in path.parts}

    before = snapshots()
    with tinker.ServiceClient(base_url=server.url, api_key=server.key) as service:
        training = service.create_lora_training_client(base_model=MODEL, rank=4).result(60)
        for _ in range(3):
            training.optim_step(ADAM)
            training.save_weights_and_get_sampling_client().result(60).compute_logprobs(prompt()).result(60)
        assert 0 < len(snapshots() - before) <= 3
    deadline = time.monotonic() + 10
    while snapshots() - before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert snapshots() - before == set()


def test_07_a_poll_is_held_about_half_a_minute(
    poll_of_a_promise_that_never_ends: list[tuple[float, httpx.Response]],
) -> None:
    """Long enough to be cheap, shorter than any client's timeout, and never a reply that is asked again at once."""
    deadline = time.monotonic() + 45
    while not poll_of_a_promise_that_never_ends and time.monotonic() < deadline:
        time.sleep(0.1)
    ((seconds, reply),) = poll_of_a_promise_that_never_ends
    assert 20 < seconds < 40
    assert reply.status_code == 408
    assert reply.json()["type"] == "try_again"
