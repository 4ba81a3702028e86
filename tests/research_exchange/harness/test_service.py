"""The client of a service behind a proxy: which headers it sends, and what it never says."""

import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import tinker

from research_exchange.harness import service as harness_service
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.service import FORK, SHARED, proxy_headers, rest_client, service_client
from tests.research_exchange.harness.preflights import RANK
from tests.servers import MODEL, SpindleServer

SHARED_LOGIN = {"MODAL_PROXY_TOKEN_ID": "shared-id", "MODAL_PROXY_TOKEN_SECRET": "shared-value"}
FORK_LOGIN = {"RUNS_PROXY_TOKEN_ID": "fork-id", "RUNS_PROXY_TOKEN_SECRET": "fork-value"}


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Something that refuses every request and remembers its headers."""
    seen: list[dict[str, str]] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            body = b'{"detail": "no"}'
            self.send_response(403)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Refuse)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_r053_each_login_is_a_pair_of_headers() -> None:
    environment = {**SHARED_LOGIN, **FORK_LOGIN}
    assert proxy_headers(SHARED, environment) == {"Modal-Key": "shared-id", "Modal-Secret": "shared-value"}
    assert proxy_headers(FORK, environment) == {"Modal-Key": "fork-id", "Modal-Secret": "fork-value"}
    assert proxy_headers(SHARED, {}) == proxy_headers(FORK, SHARED_LOGIN) == {}


@pytest.mark.parametrize("missing", list(SHARED_LOGIN))
def test_half_a_login_is_named_and_its_value_is_not(missing: str) -> None:
    half = {name: value for name, value in SHARED_LOGIN.items() if name != missing}
    with pytest.raises(HarnessError) as raised:
        proxy_headers(SHARED, half)
    assert f"{missing} is not" in str(raised.value)
    assert "shared-" not in str(raised.value)


def test_the_login_goes_with_the_requests(
    proxy: tuple[str, list[dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, seen = proxy
    for name, value in SHARED_LOGIN.items():
        monkeypatch.setenv(name, value)
    service = service_client(base_url=url, api_key="tml-test")
    with pytest.raises(tinker.PermissionDeniedError):
        rest_client(service).get_server_capabilities().result()
    assert [(headers["modal-key"], headers["modal-secret"]) for headers in seen[:1]] == [("shared-id", "shared-value")]


def test_a_client_of_a_service_that_is_away_ends_all_the_same(
    spindle: SpindleServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run whose result is on record must not wait for ever for a session to be taken back."""
    monkeypatch.setattr(harness_service, "CLOSE_SECONDS", 0.5)
    assert spindle.process is not None
    try:
        with service_client(base_url=spindle.url, api_key=spindle.key) as service:
            service.create_lora_training_client(MODEL, rank=RANK).result()
            spindle.process.send_signal(signal.SIGSTOP)
    finally:
        spindle.process.send_signal(signal.SIGCONT)
    assert "did not confirm the end of the session" in caplog.text
