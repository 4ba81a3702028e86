"""Gradient requests in their two encodings, and losses that clients upload."""

from typing import Any

import numpy as np
import pytest

from spindle.backends.contract import UserError
from spindle.wire.bodies import parse
from spindle.wire.codec import Budget
from spindle.wire.requests import Gradient
from tests.spindle.wire.desk import PROTOBUF, Desk, gradient

INPUTS = [{"name": "logprobs", "rank": 1}, {"name": "weights", "rank": 1}]
GRAPH = {"format": 1, "nodes": [{"op": "placeholder", "name": "logprobs", "target": "logprobs"}]}


def body(**tensor: Any) -> dict[str, Any]:
    chunks = [{"type": "encoded_text", "tokens": [1, 2]}, {"type": "encoded_text", "tokens": [3]}]
    datum = {"model_input": {"chunks": chunks}, "loss_fn_inputs": {"weights": tensor}}
    return {"data": [datum], "loss_fn": "cross_entropy", "loss_fn_config": {"beta": 0.5}}


def weights(budget: int = 1000, **tensor: Any) -> "np.ndarray[Any, Any]":
    read = parse(Gradient, {"forward_backward_input": body(**tensor)}).to_contract("m", Budget(budget))
    return read.data[0].loss_inputs["weights"]


def test_a_json_body_is_read_like_a_protobuf_one() -> None:
    read = parse(Gradient, {"forward_backward_input": body(data=[1, 0.5, 0], dtype="float32")}).to_contract(
        "m", Budget(0)
    )
    assert (read.model_id, read.loss_fn, read.config, read.forward_only) == ("m", "cross_entropy", {"beta": 0.5}, False)
    (datum,) = read.data
    assert datum.tokens.tolist() == [1, 2, 3]
    assert datum.loss_inputs["weights"].dtype == np.float32
    assert datum.loss_inputs["weights"].tolist() == [1.0, 0.5, 0.0]
    forward = parse(Gradient, {"forward_input": body(data=[], dtype="int64")}).to_contract("m", Budget(0))
    assert forward.forward_only


def test_json_tensors_have_shapes_and_may_be_sparse() -> None:
    assert weights(data=[1, 2, 3, 4], dtype="int64", shape=[2, 2]).tolist() == [[1, 2], [3, 4]]
    sparse: dict[str, Any] = {"shape": [2, 3], "sparse_crow_indices": [0, 1, 2], "sparse_col_indices": [2, 0]}
    assert weights(data=[5.0, 6.0], dtype="float32", **sparse).tolist() == [[0, 0, 5], [6, 0, 0]]
    assert weights(data=[1e308], dtype="float32").tolist() == [float("inf")]


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"data": [1], "dtype": "bfloat16"}, "expected float32 or int64"),
        ({"data": [1, 2], "dtype": "int64", "shape": [3]}, "do not fill its shape"),
        ({"data": [[1]], "dtype": "int64"}, "nested"),
        ({"data": ["x"], "dtype": "float32"}, "no float32 numbers"),
        ({"data": [10**30], "dtype": "int64"}, "no int64 numbers"),
        ({"data": [10**400], "dtype": "float32"}, "no float32 numbers"),
        ({"data": [None], "dtype": "int64"}, "no int64 numbers"),
        (
            {"data": [], "dtype": "int64", "shape": [1, 1], "sparse_crow_indices": [], "sparse_col_indices": []},
            "sparse",
        ),
        ({"data": [], "dtype": "int64", "shape": [2**40, 2**20], "sparse_crow_indices": [0]}, "limit body_bytes"),
    ],
)
def test_json_tensors_that_make_no_sense_are_named(tensor: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=rf"^data\[0\]\.loss_fn_inputs\['weights'\].*{words}"):
        weights(**tensor)


@pytest.mark.parametrize(
    ("route", "field"), [("forward", "forward_input"), ("forward_backward", "forward_backward_input")]
)
def test_both_routes_of_older_clients_answer(desk: Desk, route: str, field: str) -> None:
    model = desk.model()
    given = {"model_id": model, "seq_id": 1, field: body(data=[1, 1, 1], dtype="float32")}
    assert desk.ended(desk.post(route, given))["metrics"] == {"loss:sum": 1.0}
    assert desk.ended(desk.step(model, 2))["metrics"]


def upload(desk: Desk, number: int, **fields: Any) -> Any:
    given = {"session_id": desk.session, "custom_loss_seq_id": number, "name": "mine", "inputs": INPUTS, "graph": GRAPH}
    return desk.post("create_custom_loss", given | fields)


def test_an_uploaded_loss_is_checked_once_and_used_by_its_id(desk: Desk) -> None:
    first = upload(desk, 0)
    answer = desk.ended(first)
    assert answer["type"] == "create_custom_loss"
    assert upload(desk, 0, name="bad").json() == first.json(), "a retry is the same loss"
    model = desk.model()
    request = gradient(model, 1)
    request.loss_fn = "custom"
    request.loss_fn_config_v2["loss_id"].text = answer["loss_id"]
    sent = desk.http.post("/api/v1/forward_backward", content=request.SerializeToString(), headers=PROTOBUF)
    assert desk.ended(sent)["metrics"]
    (custom,) = desk.backend.custom
    assert (custom.name, dict(custom.inputs), custom.graph) == ("mine", {"logprobs": 1, "weights": 1}, GRAPH)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "bad"}, "bad graph"),
        ({"inputs": [INPUTS[0]] * 2}, "a name twice"),
        ({"inputs": [{"name": f"i{n}", "rank": 0} for n in range(17)]}, "inputs"),
        ({"graph": None}, "graph"),
        ({"session_id": "elsewhere"}, "elsewhere"),
    ],
)
def test_a_loss_that_is_not_allowed_fails_in_words(desk: Desk, fields: dict[str, Any], words: str) -> None:
    assert words in desk.ended(upload(desk, 0, **fields))["error"]
    assert desk.ended(upload(desk, 1))["loss_id"]


@pytest.mark.parametrize("loss_id", [None, "unknown", 3.0])
def test_a_gradient_with_a_loss_of_no_such_id_fails_in_its_turn(desk: Desk, loss_id: str | float | None) -> None:
    model = desk.model()
    request = gradient(model, 1)
    request.loss_fn = "custom"
    if isinstance(loss_id, str):
        request.loss_fn_config_v2["loss_id"].text = loss_id
    elif loss_id is not None:
        request.loss_fn_config_v2["loss_id"].number = loss_id
    sent = desk.http.post("/api/v1/forward_backward", content=request.SerializeToString(), headers=PROTOBUF)
    assert "names no loss of this session" in desk.failure(sent)
    assert desk.ended(desk.step(model, 2))["metrics"]


def test_the_losses_of_another_session_and_of_a_finished_one_are_not_there(desk: Desk) -> None:
    loss_id = desk.ended(upload(desk, 0))["loss_id"]
    with pytest.raises(UserError, match="names no loss of this session"):
        desk.service.losses.resolve({"loss_id": loss_id}, "other:train:0")
    assert desk.service.losses.resolve({"loss_id": loss_id}, desk.model()).loss_id == loss_id
    desk.post(f"sessions/{desk.session}/finish", {"reason": {"type": "success"}})
    with pytest.raises(UserError, match="names no loss of this session"):
        desk.service.losses.resolve({"loss_id": loss_id}, f"{desk.session}:train:0")
