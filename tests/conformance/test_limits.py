"""What a server refuses, and how: full, unknown, forbidden, nonsense, idle, and stopping."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tinker
from tinker import types

from spindle import backends
from spindle.control import Service
from spindle.wire import create_app
from tests.conformance import raw
from tests.conformance.data import TEXT, prompt, supervised, tensor
from tests.conformance.test_checkpoints import likelihood, trained
from tests.research_exchange.server.serving import in_thread
from tests.servers import MODEL, SpindleServer

SMALL = {"models": 2, "queued_sequences": 6, "queued_tokens": 2000, "sessions": 4, "checkpoint_bytes": 150_000}


@pytest.fixture(scope="module")
def small(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    """A server that is full soon."""
    options = tuple(word for name, value in SMALL.items() for word in ("--limit", f"{name}={value}"))
    server = SpindleServer(model_directory, tmp_path_factory.mktemp("small") / "data", options=options).start()
    yield server
    server.stop()
    assert "Traceback" not in server.log


@pytest.fixture
def full(small: SpindleServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{small.url}/api/v1", headers={"X-API-Key": small.key}, timeout=60) as client:
        yield client


@pytest.fixture
def visit(full: httpx.Client) -> Iterator[str]:
    """A session that leaves nothing behind."""
    session = raw.open_session(full)
    yield session
    full.post(f"/sessions/{session}/finish", json={"reason": {"type": "success"}})


def refused(reply: httpx.Response, status: int, limit: str) -> None:
    assert reply.status_code == status, reply.text
    assert int(reply.headers["retry-after"]) >= 1
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert f"limit {limit}" in reply.json()["detail"]
    assert reply.json()["limit"] == limit


def test_too_many_models(full: httpx.Client, visit: str) -> None:
    for number in range(SMALL["models"]):
        raw.create(full, visit, number)
    body = {"session_id": visit, "model_seq_id": 9, "base_model": MODEL, "lora_config": {"rank": 4}}
    refused(full.post("/create_model", json=body), 503, "models")
    raw.ended(full, full.post("/unload_model", json={"model_id": f"{visit}:train:0"}))
    assert raw.ended(full, full.post("/create_model", json=body))["model_id"] == f"{visit}:train:9"


def test_too_many_sessions(full: httpx.Client) -> None:
    sessions = [raw.open_session(full) for _ in range(SMALL["sessions"])]
    refused(full.post("/create_session", json={"tags": [], "sdk_version": "0.38.0"}), 503, "sessions")
    for session in sessions:
        full.post(f"/sessions/{session}/finish", json={"reason": {"type": "success"}})
    assert full.post("/create_session", json={"tags": [], "sdk_version": "0.38.0"}).status_code == 200


def test_too_many_samples(full: httpx.Client, visit: str) -> None:
    sampler = raw.open_sampler(full, visit)
    long = raw.sample(full, sampler, 0, TEXT, SMALL["queued_sequences"], max_tokens=900, stop=[])
    refused(raw.sample(full, sampler, 1, TEXT), 429, "queued_sequences")
    assert full.post("/cancel_future", json={"request_id": long.json()["request_id"]}).is_success


def test_a_client_that_hears_it_is_too_many_waits_and_gets_its_samples(small: SpindleServer) -> None:
    """Three times as many as may wait."""
    with tinker.ServiceClient(base_url=small.url, api_key=small.key) as service:
        sampler = service.create_sampling_client(base_model=MODEL).result(60)
        params = types.SamplingParams(max_tokens=3, stop=[])
        futures = [sampler.sample(prompt(), 2, params) for _ in range(9)]
        assert [len(future.result(60).sequences) for future in futures] == [2] * 9


def test_too_many_tokens_but_never_the_request_that_others_wait_for(full: httpx.Client, visit: str) -> None:
    model, other = raw.create(full, visit, 0), raw.create(full, visit, 1)
    batch = [supervised((TEXT * 40)[:501])] * 3
    second = raw.forward_backward(full, model, 2, batch)
    assert second.status_code == 200
    refused(raw.forward_backward(full, other, 2, batch), 429, "queued_tokens")
    first = raw.forward_backward(full, model, 1, batch)
    assert first.status_code == 200
    for promise in (first, second):
        assert raw.gradient(full, promise).metrics["loss:sum"] > 0
    assert raw.gradient(full, raw.forward_backward(full, other, 1, batch)).metrics["loss:sum"] > 0


def test_too_many_bytes_of_checkpoints(full: httpx.Client, visit: str) -> None:
    model, sentence = raw.create(full, visit), ""
    for number in range(1, 20):
        reply = full.post("/save_weights", json={"model_id": model, "seq_id": number, "path": f"state-{number}"})
        answer = raw.ended(full, reply) if reply.status_code == 200 else reply.json()
        sentence = answer.get("error") or answer.get("detail") or ""
        if sentence:
            break
    assert "checkpoint_bytes" in sentence
    assert full.delete(f"/training_runs/{model}/checkpoints/weights/state-1").is_success


UNSUPPORTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "model": ({"base_model": "org/absent"}, ["org/absent", MODEL]),
    "rank": ({"lora_config": {"rank": 257}}, ["rank", "256"]),
    "no-flag": (
        {"lora_config": {"rank": 4, "train_attn": False, "train_mlp": False, "train_unembed": False}},
        ["train_attn"],
    ),
    "optimizer": ({"optimizer_config": {"type": "sgd"}}, ["sgd", "adamw", "muon", "lora_muon"]),
    "dimuon": ({"optimizer_config": {"type": "dimuon"}}, ["dimuon", "adamw"]),
    "hyperparameter": ({"optimizer_config": {"type": "adamw", "nesterov": 1.0}}, ["nesterov", "learning_rate"]),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_what_is_not_supported_is_a_400_at_creation_with_what_is(http: httpx.Client, case: str) -> None:
    change, words = UNSUPPORTED[case]
    session = raw.open_session(http)
    body = {"session_id": session, "model_seq_id": 0, "base_model": MODEL, "lora_config": {"rank": 4}, **change}
    reply = http.post("/create_model", json=body)
    assert reply.status_code == 400, reply.text
    assert int(reply.headers["content-length"]) == len(reply.content)
    for word in words:
        assert word in reply.json()["detail"]


def test_the_sdk_raises_what_was_refused_at_creation(service: tinker.ServiceClient) -> None:
    with pytest.raises(tinker.BadRequestError, match=MODEL):
        service.create_lora_training_client(base_model="org/absent").result(60)
    with pytest.raises(tinker.BadRequestError, match="lora_muon"):
        service.create_lora_training_client(base_model=MODEL, optimizer=types.DimuonOptimizerConfig()).result(60)


@pytest.mark.parametrize("key", ["", "tml-wrong", "Bearer tml-wrong"])
def test_a_wrong_or_missing_key_is_a_401_everywhere_but_at_the_health_check(server: SpindleServer, key: str) -> None:
    headers = {"X-API-Key": key} if key else {}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=60) as http:
        assert http.get("/healthz").status_code == 200
        for route in ("client/config", "create_session", "create_model", "forward_backward", "asample", "telemetry"):
            reply = http.post(f"/{route}", json={})
            assert reply.status_code == 401, route
            assert "TINKER_API_KEY" in reply.json()["detail"]
        for route in ("training_runs", "sessions", "checkpoints", "get_server_capabilities", "no/such/route"):
            assert http.get(f"/{route}").status_code in (401, 404)
            assert http.get(f"/{route}").status_code == 401 or route == "no/such/route"


def spoiled(**inputs: types.TensorData) -> types.Datum:
    datum = supervised()
    return types.Datum(model_input=datum.model_input, loss_fn_inputs={**datum.loss_fn_inputs, **inputs})


COUNT = len(TEXT) - 1
LONG = supervised((TEXT * 100)[:1100])
NONSENSE: dict[str, tuple[types.Datum, str, list[str]]] = {
    "over-long": (LONG, "cross_entropy", ["data[1]", "1099", "1024"]),
    "nan": (
        spoiled(weights=tensor([float("nan")] * COUNT, np.float32)),
        "cross_entropy",
        ["data[1]", "weights"],
    ),
    "infinite": (
        spoiled(weights=tensor([float("inf")] * COUNT, np.float32)),
        "cross_entropy",
        ["data[1]", "weights"],
    ),
    "short": (spoiled(weights=tensor([1.0] * 3, np.float32)), "cross_entropy", ["data[1]", "weights", "3"]),
    "shape": (
        types.Datum(
            model_input=types.ModelInput.from_ints(TEXT[:-1]),
            loss_fn_inputs={
                "target_tokens": types.TensorData(data=TEXT[1:] * 2, dtype="int64", shape=[2, COUNT]),
                "weights": types.TensorData(data=[1.0] * COUNT * 2, dtype="float32", shape=[2, COUNT]),
            },
        ),
        "cross_entropy",
        ["data[1]", "target_tokens"],
    ),
    "outside": (
        spoiled(target_tokens=tensor([257] * COUNT, np.int64)),
        "cross_entropy",
        ["data[1]", "target_tokens", "257"],
    ),
    "missing": (supervised(), "importance_sampling", ["data[0]", "logprobs"]),
    "empty": (
        types.Datum(
            model_input=types.ModelInput.from_ints([]),
            loss_fn_inputs={"target_tokens": tensor([], np.int64), "weights": tensor([], np.float32)},
        ),
        "cross_entropy",
        ["data[1]"],
    ),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_fails_its_promise_and_names_the_datum_and_the_field(
    training: tinker.TrainingClient, case: str
) -> None:
    datum, loss, words = NONSENSE[case]
    with pytest.raises(tinker.RequestFailedError) as refusal:
        training.forward_backward([supervised(), datum], loss).result(60)  # type: ignore[arg-type]
    assert refusal.value.category is types.RequestErrorCategory.User
    for word in words:
        assert word in str(refusal.value)
    applied = training.optim_step(types.AdamParams()).result(60).metrics
    assert applied is not None
    assert applied["grad_norm"] == 0.0, "a part of a batch that failed left a gradient"


def test_a_step_of_nonsense_fails_and_leaves_the_weights(training: tinker.TrainingClient) -> None:
    before = likelihood(training)
    for params in (
        types.AdamParams(learning_rate=float("nan")),
        types.AdamParams(beta1=1.5),
        types.AdamParams(eps=-1.0),
    ):
        training.forward_backward([supervised()], "cross_entropy")
        with pytest.raises(tinker.RequestFailedError) as refusal:
            training.optim_step(params).result(60)
        assert refusal.value.category is types.RequestErrorCategory.User
    assert np.array_equal(likelihood(training), before)


def test_an_idle_session_is_reclaimed_and_its_checkpoints_kept(model_directory: Path, tmp_path: Path) -> None:
    """In this process, where the clock can be moved; everything else is the real thing."""
    service = Service.build(backends.load({MODEL: model_directory}), tmp_path)
    late = 0.0
    for part in (service.sessions, service.samplers, service.promises, service.pauses):
        part.clock = lambda: time.monotonic() + late
    app = create_app(service, {"local": "tml-test"})
    with (
        in_thread(app) as url,
        httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": "tml-test"}, timeout=60) as http,
    ):
        session = raw.open_session(http)
        model = raw.create(http, session)
        saved = raw.ended(http, http.post("/save_weights", json={"model_id": model, "seq_id": 1, "path": "a"}))["path"]
        for _ in range(200):
            late += 2.0
            service.tidy()
        assert http.post("/session_heartbeat", json={"session_id": session}).status_code == 410
        assert http.post("/get_info", json={"model_id": model}).status_code == 404
        again = raw.open_session(http)
        load = {"session_id": again, "model_seq_id": 0, "path": saved, "optimizer": True}
        assert raw.ended(http, http.post("/load_weights", json=load))["path"] == saved
        assert http.post("/get_info", json={"model_id": f"{again}:train:0"}).json()["lora_rank"] == 4


def test_sigterm_lets_the_running_command_end_and_leaves_no_half_of_a_checkpoint(mortal: SpindleServer) -> None:
    service = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    training = trained(service, 1)
    expected = likelihood(training)
    saves = [training.save_state(f"state-{number}") for number in range(20)]
    saves[2].result(60)
    assert mortal.stop() < 12
    assert mortal.status == 0
    assert "Traceback" not in mortal.log
    mortal.start()
    listed = tinker.RestClient(base_url=mortal.url, api_key=mortal.key).list_checkpoints(training.model_id).result(60)
    names = {row.checkpoint_id for row in listed.checkpoints}
    for number, save in enumerate(saves):
        if save.future().exception(60) is None:
            assert f"weights/state-{number}" in names, "a save that was reported done is gone"
    again = tinker.ServiceClient(base_url=mortal.url, api_key=mortal.key)
    for row in listed.checkpoints[:3] + listed.checkpoints[-1:]:
        restored = again.create_training_client_from_state_with_optimizer(row.tinker_path).result(60)
        assert np.array_equal(likelihood(restored), expected)
    for client in (service, again):
        client.close("success").result(10)
