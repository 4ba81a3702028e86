"""Requests as they travel, for what the SDK would not send or would not show."""

from typing import Any

import httpx
import tinker
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output

from tests.servers import MODEL

Json = dict[str, Any]
PROTOBUF = "application/x-protobuf"


def open_session(http: httpx.Client, **more: Any) -> str:
    body = {"tags": [], "user_metadata": {}, "sdk_version": tinker.__version__, **more}
    return str(http.post("/create_session", json=body).json()["session_id"])


def retrieved(http: httpx.Client, promise: httpx.Response, accept: str = "application/json") -> httpx.Response:
    """What a promise ended with."""
    assert promise.status_code == 200, promise.text
    reply = http.post("/retrieve_future", json={"request_id": promise.json()["request_id"]}, headers={"Accept": accept})
    assert reply.status_code == 200, reply.text
    return reply


def ended(http: httpx.Client, promise: httpx.Response) -> Json:
    answer: Json = retrieved(http, promise).json()
    return answer


def create(http: httpx.Client, session: str, number: int = 0, **more: Any) -> str:
    """A model of rank 4; returns its id."""
    body = {"session_id": session, "model_seq_id": number, "base_model": MODEL, "lora_config": {"rank": 4}, **more}
    return str(ended(http, http.post("/create_model", json=body))["model_id"])


def optim_step(http: httpx.Client, model: str, seq_id: int, **adam: Any) -> httpx.Response:
    return http.post("/optim_step", json={"model_id": model, "seq_id": seq_id, "adam_params": adam})


def forward_backward(
    http: httpx.Client,
    model: str,
    seq_id: int,
    data: list[types.Datum],
    loss: str = "cross_entropy",
    *,
    forward_only: bool = False,
) -> httpx.Response:
    request = types.ForwardBackwardRequest(
        forward_backward_input=types.ForwardBackwardInput(data=data, loss_fn=loss),  # type: ignore[arg-type]
        model_id=model,
        seq_id=seq_id,
    )
    message = forward_backward_request_to_proto(request)
    message.forward_only = forward_only
    return http.post("/forward_backward", content=message.SerializeToString(), headers={"Content-Type": PROTOBUF})


def gradient(http: httpx.Client, promise: httpx.Response) -> types.ForwardBackwardOutput:
    reply = retrieved(http, promise, PROTOBUF)
    assert reply.headers["content-type"] == PROTOBUF, reply.text
    return deserialize_forward_backward_output(reply.content)


def open_sampler(http: httpx.Client, session: str, number: int = 0) -> str:
    body = {"session_id": session, "sampling_session_seq_id": number, "base_model": MODEL}
    return str(http.post("/create_sampling_session", json=body).json()["sampling_session_id"])


def sample(
    http: httpx.Client, sampler: str, seq_id: int, tokens: list[int], samples: int = 1, **params: Any
) -> httpx.Response:
    body = {
        "sampling_session_id": sampler,
        "seq_id": seq_id,
        "num_samples": samples,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": tokens}]},
        "sampling_params": {"max_tokens": 2, "temperature": 1.0, "top_k": -1, "top_p": 1.0, **params},
    }
    return http.post("/asample", json=body, headers={"X-Tinker-Sampling-Backpressure": "1"})
