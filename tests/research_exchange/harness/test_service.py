"""The client of a service behind a proxy: which headers it sends, and what it never says."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import tinker

from research_exchange.harness.errors import HarnessError
from research_exchange.harness.service import FORK, SHARED, proxy_headers, rest_client, service_client

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
