"""The whole application over a backend that only records, and short words for what clients say to it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from httpx import Response

from spindle.control import Service
from spindle.control.limits import Limits
from spindle.engine import Timing
from spindle.wire import create_app
from spindle.wire import schema_pb2 as schema
from tests.research_exchange.server.serving import NO_TLS, in_thread
from tests.spindle.engine.recording import RecordingBackend

KEYS = {"ann": "tml-key-of-ann", "bob": "tml-key-of-bob"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
QUICK = Timing(sample_quiet=0.001, sample_linger=0.01, gap=30.0, gap_after_refusal=0.05)


class Desk:
    """One server, spoken to by `ann`."""

    def __init__(self, service: Service, backend: RecordingBackend, http: httpx.Client) -> None:
        self.service = service
        self.backend = backend
        self.http = http
        self.session = self.post("create_session", {"tags": []}).json()["session_id"]

    def post(self, route: str, body: Mapping[str, Any], **headers: str) -> Response:
        return self.http.post(
            f"/api/v1/{route}", json=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    def get(self, route: str, key: str = KEYS["ann"]) -> Response:
        return self.http.get(f"/api/v1/{route}", headers={"X-API-Key": key})

    def ended(self, promise: Response, **headers: str) -> Any:
        """How a promise ended."""
        assert promise.status_code == 200, promise.text
        return self.post("retrieve_future", {"request_id": promise.json()["request_id"]}, **headers).json()

    def failure(self, promise: Response) -> str:
        """Why a promise failed by its client's mistake."""
        answer = self.ended(promise)
        assert answer["category"] == "user"
        return str(answer["error"])

    def model(self, number: int = 0) -> str:
        body = {"session_id": self.session, "model_seq_id": number, "base_model": "base"}
        return str(self.ended(self.post("create_model", body))["model_id"])

    def sampler(self, number: int = 0) -> str:
        body = {"session_id": self.session, "sampling_session_seq_id": number, "base_model": "base"}
        return str(self.post("create_sampling_session", body).json()["sampling_session_id"])

    def step(self, model_id: str, seq_id: int) -> Response:
        return self.post("optim_step", {"model_id": model_id, "seq_id": seq_id, "adam_params": {"learning_rate": 0.5}})

    def gradient(self, model_id: str, seq_id: int, tokens: int = 1) -> Response:
        body = gradient(model_id, seq_id, tokens).SerializeToString()
        return self.http.post("/api/v1/forward_backward", content=body, headers=PROTOBUF)

    def sample(self, sampler: str, seq_id: int, **fields: Any) -> Response:
        body = {
            "sampling_session_id": sampler,
            "seq_id": seq_id,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]},
            "sampling_params": {"max_tokens": 1},
        }
        return self.post("asample", body | fields)

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """The compute thread is occupied inside."""
        model_id = self.model(99)
        self.backend.entered.clear()
        self.backend.hold.clear()
        self.step(model_id, 1)
        assert self.backend.entered.wait(5)
        yield
        self.backend.hold.set()


def gradient(model_id: str, seq_id: int, tokens: int = 1) -> schema.ForwardBackwardRequest:
    content = np.zeros(tokens, np.int32).tobytes()
    datum = schema.Datum(model_input=[schema.Chunk(encoded_text=schema.EncodedTextChunk(tokens=content))])
    return schema.ForwardBackwardRequest(model_id=model_id, seq_id=seq_id, loss_fn="cross_entropy", data=[datum])


@contextmanager
def open_desk(data: Path, limits: Limits | None = None, timing: Timing = QUICK) -> Iterator[Desk]:
    backend = RecordingBackend()
    service = Service.build(backend, data, timing, limits)
    headers = {"X-API-Key": KEYS["ann"]}
    with (
        in_thread(create_app(service, KEYS, grace=5)) as url,
        httpx.Client(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as http,
    ):
        yield Desk(service, backend, http)
        backend.hold.set()


def tidied(desk: Desk, seconds: float) -> None:
    """Let the server look after itself once that much time has passed."""
    time.sleep(seconds)
    desk.service.tidy()
