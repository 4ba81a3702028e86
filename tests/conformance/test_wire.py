"""What travels, seen without the SDK: errors, retries, polling, sizes."""

import socket
import threading
import time

import httpx
import pytest
import tinker
from tinker import types

from tests.conformance.data import TEXT, slow
from tests.conformance.raw import create, ended, open_sampler, open_session, optim_step, sample
from tests.servers import MODEL, SpindleServer


@pytest.fixture
def session(http: httpx.Client) -> str:
    return open_session(http)


def test_only_the_key_opens_and_health_needs_none(server: SpindleServer) -> None:
    assert httpx.get(f"{server.url}/api/v1/healthz").json() == {"status": "ok"}
    for key in (b"", f"{server.key}x".encode(), "tml-schlüssel".encode()):
        headers = {b"X-API-Key": key} if key else {}
        reply = httpx.post(f"{server.url}/api/v1/client/config", json={}, headers=headers)
        assert reply.status_code == 401
        assert "TINKER_API_KEY" in reply.json()["detail"]
        assert server.key not in reply.text
    with pytest.raises(tinker.AuthenticationError):
        tinker.ServiceClient(base_url=server.url, api_key="tml-wrong-key").create_sampling_client(
            base_model=MODEL
        ).result(30)


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b'{"model_id": 1}'])
def test_a_body_that_cannot_be_read_is_a_400_with_a_length_and_a_sentence(http: httpx.Client, body: bytes) -> None:
    reply = http.post("/optim_step", content=body)
    assert reply.status_code == 400
    assert int(reply.headers["content-length"]) > 20
    assert reply.json()["detail"].endswith(".")


def test_neither_a_client_that_goes_away_nor_a_twisted_body_is_a_failure_of_the_server(
    http: httpx.Client, server: SpindleServer
) -> None:
    """Its log, which must be free of tracebacks, is looked at when it stops."""
    head = (
        f"POST /api/v1/optim_step HTTP/1.1\r\nHost: here\r\nX-API-Key: {server.key}\r\nContent-Length: 1000\r\n\r\n{{"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode())
    reply = http.post("/optim_step", content=b"[" * 100_000)
    assert reply.status_code == 400
    assert "is not JSON" in reply.json()["detail"]


def test_a_gradient_body_that_cannot_be_read_is_a_400(http: httpx.Client) -> None:
    proto = {"Content-Type": "application/x-protobuf"}
    for content, headers in ((b"\xff\xff", proto), (b"plain", proto | {"Content-Encoding": "zstd"}), (b"{}", {})):
        reply = http.post("/forward_backward", content=content, headers=headers)
        assert reply.status_code == 400
        assert reply.json()["detail"]


def test_a_readable_address_with_nonsense_behind_it_keeps_its_place(http: httpx.Client, session: str) -> None:
    model = create(http, session)
    refused = http.post("/optim_step", json={"model_id": model, "seq_id": 1, "adam_params": {"learning_rate": "fast"}})
    answer = ended(http, refused)
    assert answer["category"] == "user"
    assert "learning_rate" in answer["error"]
    applied = http.post("/optim_step", json={"model_id": model, "seq_id": 2, "adam_params": {"learning_rate": 0.1}})
    assert ended(http, applied)["metrics"]["learning_rate"] == 0.1


def test_a_retried_submit_is_the_same_promise_and_runs_once(http: httpx.Client, session: str) -> None:
    model = create(http, session)
    body = {"model_id": model, "seq_id": 1, "adam_params": {}}
    first, second = http.post("/optim_step", json=body), http.post("/optim_step", json=body)
    assert first.json() == second.json()
    assert ended(http, first) == ended(http, second)
    third = http.post("/optim_step", json=body | {"seq_id": 2})
    assert ended(http, third)["metrics"]["optimizer_step"] == 2


def test_requests_that_arrive_out_of_order_run_in_order(http: httpx.Client, session: str) -> None:
    model = create(http, session)
    promises = {
        number: http.post("/optim_step", json={"model_id": model, "seq_id": number, "adam_params": {}})
        for number in (3, 2, 1)
    }
    steps = [ended(http, promises[number])["metrics"]["optimizer_step"] for number in (1, 2, 3)]
    assert steps == [1, 2, 3]


def test_a_reply_that_was_lost_can_be_fetched_again(http: httpx.Client, session: str) -> None:
    model = create(http, session)
    saved = http.post("/save_weights", json={"model_id": model, "seq_id": 1, "path": "a"})
    assert ended(http, saved) == ended(http, saved) == {"type": "save_weights", "path": f"tinker://{model}/weights/a"}
    info = http.post("/weights_info", json={"tinker_path": f"tinker://{model}/weights/a"}).json()
    assert (info["base_model"], info["is_lora"], info["lora_rank"]) == (MODEL, True, 4)


def test_a_poll_is_held_while_the_result_is_not_there(http: httpx.Client, session: str) -> None:
    model = create(http, session)
    parked = http.post("/optim_step", json={"model_id": model, "seq_id": 2, "adam_params": {}})
    missing = {"model_id": model, "seq_id": 1, "adam_params": {}}
    timer = threading.Timer(1.0, lambda: http.post("/optim_step", json=missing))
    timer.start()
    begun = time.monotonic()
    assert ended(http, parked)["metrics"]["optimizer_step"] == 2
    assert time.monotonic() - begun > 0.9
    timer.join()


def test_a_finished_or_unknown_session_hears_410_and_frees_its_models(http: httpx.Client, session: str) -> None:
    model = create(http, session)
    beat = {"session_id": session}
    assert http.post("/session_heartbeat", json=beat).json() == {"type": "session_heartbeat"}
    for _ in range(2):
        reply = http.post(f"/sessions/{session}/finish", json={"reason": {"type": "success"}})
        assert reply.status_code == 204
    assert http.post("/session_heartbeat", json=beat).status_code == 410
    assert http.post("/session_heartbeat", json={"session_id": "never"}).status_code == 410
    assert http.post("/get_info", json={"model_id": model}).status_code == 404
    late = http.post("/optim_step", json={"model_id": model, "seq_id": 1, "adam_params": {}})
    assert "its session ended" in ended(http, late)["error"]


def test_older_clients_create_then_load(http: httpx.Client, session: str) -> None:
    model, copy = create(http, session, 0), create(http, session, 1)
    ended(http, http.post("/optim_step", json={"model_id": model, "seq_id": 1, "adam_params": {}}))
    path = ended(http, http.post("/save_weights", json={"model_id": model, "seq_id": 2, "path": "a"}))["path"]
    load = {"model_id": copy, "seq_id": 1, "path": path, "optimizer": True}
    assert ended(http, http.post("/load_weights", json=load)) == {
        "type": "load_weights",
        "path": path,
        "model_id": copy,
    }
    assert http.post("/get_info", json={"model_id": copy}).json()["optimizer_config"]["step"] == 1


def test_clones_join_and_abandoned_samples_are_cancelled(http: httpx.Client, session: str) -> None:
    opened = http.post(
        "/create_sampling_session", json={"session_id": session, "sampling_session_seq_id": 0, "base_model": MODEL}
    ).json()["sampling_session_id"]
    joined = http.post("/join_sampling_session", json={"sampling_session_id": opened}).json()
    assert joined["client_counter"] == 1
    assert http.post("/cancel_future", json={"request_id": "unknown"}).status_code == 204


def test_absurd_numbers_are_refused_before_they_cost_anything(http: httpx.Client, session: str) -> None:
    body = {"session_id": session, "sampling_session_seq_id": 0, "base_model": MODEL}
    sampler = http.post("/create_sampling_session", json=body).json()["sampling_session_id"]
    sample = {"prompt": {"chunks": [{"tokens": [1]}]}, "sampling_params": {"max_tokens": 1}}
    address = {"sampling_session_id": sampler, "seq_id": 0, "num_samples": 10**7}
    promise = http.post("/asample", json=sample | address)
    assert len(promise.content) < 10**6
    assert "num_samples" in ended(http, promise)["error"]
    for number in (-1, 10**9):
        creation = {"session_id": session, "model_seq_id": number, "base_model": MODEL}
        reply = http.post("/create_model", json=creation)
        assert reply.status_code == 400
        assert "model_seq_id" in reply.json()["detail"]


def test_telemetry_is_accepted_and_kept_nowhere(http: httpx.Client, server: SpindleServer) -> None:
    secret = "a-header-that-nobody-should-keep"
    assert http.post("/telemetry", json={"events": [{"x": secret}]}).json() == {"status": "accepted"}
    assert secret not in server.log
    files = [path for path in server.data.rglob("*") if path.is_file()]
    assert files
    assert not any(secret.encode() in path.read_bytes() for path in files)


def test_heartbeats_are_answered_at_once_during_a_long_step(
    http: httpx.Client, session: str, training: tinker.TrainingClient
) -> None:
    gradient = training.forward_backward(slow(120), "cross_entropy")
    training.optim_step(types.AdamParams())
    latencies = []
    computing = gradient.future()
    while not computing.done():
        begun = time.monotonic()
        assert http.post("/session_heartbeat", json={"session_id": session}).status_code == 200
        latencies.append(time.monotonic() - begun)
        time.sleep(0.02)
    assert len(latencies) > 20, "the step was too short to show anything"
    assert sorted(latencies)[int(0.99 * len(latencies))] < 0.3


def test_the_first_clients_spoke_json_both_ways(http: httpx.Client, session: str) -> None:
    """Bodies and results of SDKs up to 0.24, where `forward` has an address of its own."""
    model = create(http, session)
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": TEXT[:-1]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": TEXT[1:], "dtype": "int64"},
            "weights": {"data": [1.0] * (len(TEXT) - 1), "dtype": "float32"},
        },
    }
    whole = {"data": [datum, datum], "loss_fn": "cross_entropy"}
    answers = [
        ended(http, http.post(route, json={"model_id": model, "seq_id": number, field: whole}))
        for number, (route, field) in enumerate(
            (("/forward", "forward_input"), ("/forward_backward", "forward_backward_input")), 1
        )
    ]
    for answer in answers:
        first, second = (output["logprobs"] for output in answer["loss_fn_outputs"])
        assert first == second
        assert (first["dtype"], first["shape"]) == ("float32", [len(TEXT) - 1])
        assert answer["metrics"]["loss:sum"] == pytest.approx(-2 * sum(first["data"]), rel=1e-5)
    assert ended(http, optim_step(http, model, 3))["metrics"]["grad_norm"] > 0
    sampled = ended(http, sample(http, open_sampler(http, session), 0, TEXT, 2))
    assert sampled["type"] == "sample"
    for sequence in sampled["sequences"]:
        assert len(sequence["tokens"]) == len(sequence["logprobs"]) <= 2
        assert sequence["stop_reason"] in ("stop", "length")
