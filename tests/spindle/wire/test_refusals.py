"""What cannot be done or not even read: refused in words, and never a hole in the order that others fall into."""

import json
from typing import Any

import numpy as np
import pytest
import zstandard

from spindle.wire.bodies import MOST_VALUES
from spindle.wire.schema_pb2 import ForwardBackwardRequest
from tests.spindle.wire.desk import KEYS, PROTOBUF, Desk, gradient, tidied


def sentence(reply: Any, status: int = 400) -> str:
    assert reply.status_code == status, reply.text
    assert int(reply.headers["content-length"]) > 20
    text = str(reply.json()["detail"])
    assert text.endswith(".")
    return text


# ---- keys


@pytest.mark.parametrize("key", ["", "tml-key-of-an", "tml-key-of-annn", "tml-key-of-eve"])
def test_only_a_key_of_this_server_opens_it(desk: Desk, key: str) -> None:
    reply = desk.get("sessions", key)
    assert "TINKER_API_KEY" in sentence(reply, 401)
    assert KEYS["ann"] not in reply.text


# ---- creation


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"optimizer_config": {"type": "unknown"}}, "no optimizer unknown"),
        ({"optimizer_config": {"type": "adamw", "betas": [1]}}, "betas"),
        ({"lora_config": {"rank": "many"}}, "lora_config.rank"),
        ({"lora_config": {"rank": 10**30}}, "lora_config.rank"),
        ({"model_seq_id": -1}, "model_seq_id"),
        ({"base_model": None}, "base_model"),
    ],
)
def test_a_model_that_is_not_offered_is_refused_at_its_creation(desk: Desk, fields: dict[str, Any], words: str) -> None:
    body = {"session_id": desk.session, "model_seq_id": 0, "base_model": "base"} | fields
    assert words in sentence(desk.post("create_model", body))
    assert desk.model(0), "nothing stands in the way of a better one"


def test_an_optimizer_that_is_not_offered_is_refused_when_a_state_is_loaded_too(desk: Desk) -> None:
    model = desk.model()
    saved = desk.ended(desk.post("save_weights", {"model_id": model, "seq_id": 1, "path": "a"}))
    body = {"session_id": desk.session, "model_seq_id": 1, "path": saved["path"], "optimizer": False}
    assert "no optimizer unknown" in sentence(
        desk.post("load_weights", body | {"optimizer_config": {"type": "unknown"}})
    )
    assert desk.ended(desk.post("load_weights", body))["model_id"]


# ---- bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model_id": "\\ud800", "seq_id": 1}',
        b'{"model_id": "m", "seq_id": ' + b"9" * 5000 + b"}",
        b'{"model_id": "m", "seq_id": ' + b"9" * 100 + b"}",
        b'{"model_id": "m", "seq_id": 1.5}',
        b'{"model_id": "m", "seq_id": NaN}',
    ],
)
def test_a_body_that_cannot_be_read_is_a_400_with_a_length(desk: Desk, body: bytes) -> None:
    for route in ("optim_step", "forward_backward", "save_weights"):
        sentence(desk.http.post(f"/api/v1/{route}", content=body))


def test_a_body_of_more_values_than_memory_is_for_is_not_even_parsed(desk: Desk) -> None:
    body = b'{"tags": [' + b"[]," * (MOST_VALUES // 2) + b"[]]}"
    reply = desk.http.post("/api/v1/create_session", content=body)
    assert f"more than {MOST_VALUES} values" in sentence(reply, 413)


def test_a_whole_surrogate_pair_is_text(desk: Desk) -> None:
    reply = desk.http.post("/api/v1/create_session", content=b'{"display_name": "\\ud83d\\ude00"}')
    assert desk.get(f"sessions/{reply.json()['session_id']}").json()["display_name"] == "\U0001f600"


@pytest.mark.parametrize("compressed", [False, True])
def test_a_damaged_gradient_whose_address_is_readable_fails_in_its_place(desk: Desk, compressed: bool) -> None:
    model = desk.model()
    whole = gradient(model, 1)
    whole.data[0].loss_fn_inputs["noise"].dense = np.random.default_rng(0).bytes(400_000)
    body = whole.SerializeToString()
    headers = PROTOBUF | ({"Content-Encoding": "zstd"} if compressed else {})
    cut = (zstandard.compress(body) if compressed else body)[:300_000]
    assert desk.failure(desk.http.post("/api/v1/forward_backward", content=cut, headers=headers)).startswith("The ")
    assert desk.ended(desk.step(model, 2))["metrics"]


def test_a_gradient_that_is_not_compressed_as_it_says_is_a_400(desk: Desk) -> None:
    body = gradient(desk.model(), 1).SerializeToString()
    reply = desk.http.post("/api/v1/forward_backward", content=body, headers=PROTOBUF | {"Content-Encoding": "zstd"})
    assert "not valid zstd" in sentence(reply)


@pytest.mark.parametrize("body", [b"\xff\xff", b"", ForwardBackwardRequest(loss_fn="x").SerializeToString()[:-1]])
def test_nobody_waits_long_behind_a_gradient_that_could_not_be_read(desk: Desk, body: bytes) -> None:
    """Its id never comes again: the client has raised, and goes on with the next one."""
    model = desk.model()
    reply = desk.http.post("/api/v1/forward_backward", content=body or b"\x0a", headers=PROTOBUF)
    sentence(reply)
    parked = desk.step(model, 2)
    tidied(desk, 0.06)
    assert "Request 1 of training run" in desk.failure(parked)
    assert desk.ended(desk.step(model, 3))["metrics"]


def test_the_models_of_others_wait_as_long_as_ever(desk: Desk) -> None:
    model = desk.model()
    parked = desk.step(model, 2)
    bob = {"X-API-Key": KEYS["bob"]}
    sentence(desk.http.post("/api/v1/forward_backward", content=b"\xff", headers=PROTOBUF | bob))
    sentence(desk.http.post("/api/v1/optim_step", content=b"{", headers=bob))
    tidied(desk, 0.06)
    desk.step(model, 1)
    assert desk.ended(parked)["metrics"]


# ---- commands


@pytest.mark.parametrize(
    ("route", "fields", "words"),
    [
        ("optim_step", {"adam_params": {"learning_rate": "fast"}}, "learning_rate"),
        ("optim_step", {"adam_params": {"eps": 10**400}}, "eps"),
        ("optim_step", {"optimizer_params": {"type": "muon", "momentum": 10**400}}, "momentum"),
        ("save_weights", {"path": "a/b"}, "cannot name a checkpoint"),
        ("save_weights", {"path": "a", "ttl_seconds": 10**30}, "ttl_seconds"),
        ("save_weights_for_sampler", {}, "sampling_session_seq_id"),
        ("save_weights_for_sampler", {"kind": "odd", "sampling_session_seq_id": 0}, "snapshot or inflight"),
        ("load_weights", {"path": "a", "optimizer": True}, "is not a checkpoint path"),
        ("forward_backward", {}, "no forward_backward_input"),
        ("forward_backward", {"forward_backward_input": {"data": [{}], "loss_fn": "x"}}, "data.0.model_input"),
    ],
)
def test_a_command_that_makes_no_sense_fails_in_its_turn(
    desk: Desk, route: str, fields: dict[str, Any], words: str
) -> None:
    model = desk.model()
    body = json.dumps({"model_id": model, "seq_id": 1} | fields)
    assert words in desk.failure(desk.http.post(f"/api/v1/{route}", content=body))
    assert desk.ended(desk.step(model, 2))["metrics"]


@pytest.mark.parametrize("seq_id", [0, -1])
def test_a_command_that_is_before_the_first_one_is_no_other_request(desk: Desk, seq_id: int) -> None:
    model = desk.model()
    assert "count from 1" in desk.failure(desk.step(model, seq_id))
    assert "count from 1" in desk.failure(desk.gradient(model, seq_id))


@pytest.mark.parametrize(
    "chunk",
    [{"type": "image", "data": "aGk=", "format": "png"}, {"type": "image_asset_pointer"}, {"type": "dmel"}],
)
def test_only_text_is_sampled(desk: Desk, chunk: dict[str, Any]) -> None:
    promise = desk.sample(desk.sampler(), 0, prompt={"chunks": [chunk]})
    assert f"chunk of kind {chunk['type']}; this server takes text tokens only" in desk.failure(promise)


@pytest.mark.parametrize("kind", ["image", "dmel"])
def test_only_text_is_trained_on(desk: Desk, kind: str) -> None:
    model = desk.model()
    request = gradient(model, 1)
    chunk = request.data[0].model_input.add()
    if kind == "image":
        chunk.image.data = b"png"
    else:
        chunk.dmel.dmel = b"sound"
    reply = desk.http.post("/api/v1/forward_backward", content=request.SerializeToString(), headers=PROTOBUF)
    assert f"data[0].model_input has a chunk of kind {kind}" in desk.failure(reply)


@pytest.mark.parametrize("path", ["sessions?limit=many", "sessions?limit=-1", "nothing/here"])
def test_what_is_asked_for_wrongly_is_said(desk: Desk, path: str) -> None:
    reply = desk.get(path)
    assert reply.status_code in (400, 404)
    assert int(reply.headers["content-length"]) > 10
