"""The administrator's token in a data folder goes to the Exchange that serves it, and to nobody in its place."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from research_exchange.cli.exchange import connect
from research_exchange.runner import exchange_service
from tests.research_exchange.server.serving import start


class _Thief(BaseHTTPRequestHandler):
    """Says of itself that it is a healthy Exchange, and remembers what it is sent."""

    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.heard.append(f"{self.path}\n{self.headers}")
        body = json.dumps({"status": "ok", "proof": "0" * 64, "runs": [], "total": 0, "next": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Not on the terminal."""


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RX_TOKEN", "RX_ADMIN_TOKEN", "RX_URL"):
        monkeypatch.delenv(name, raising=False)


def test_whoever_took_the_port_of_a_killed_exchange_is_sent_no_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    killed = start(data)
    for url in (killed.url, f"http://localhost:{killed.port}"):
        found = connect(url, data)
        assert (found.url, found.token) == (killed.url, killed.admin_token)
    killed.kill()
    with ThreadingHTTPServer(("127.0.0.1", killed.port), _Thief) as thief:
        Thread(target=thief.serve_forever).start()
        try:
            assert connect(killed.url, data).runs() == [], "the thief is asked, without a token"
            with exchange_service(data, environment={}) as service:
                assert service.url != killed.url
                assert connect(service.url, data).token == killed.admin_token
        finally:
            thief.shutdown()
    assert len(_Thief.heard) == 3, _Thief.heard
    assert not [sent for sent in _Thief.heard if "authorization" in sent.lower() or killed.admin_token in sent]
