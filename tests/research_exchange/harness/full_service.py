"""A training service that has no capacity: it answers 429 to what it is told to refuse, and passes the rest on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

Refuses = Callable[[str], bool]


@dataclass
class FullService:
    """A running one."""

    url: str
    refuses: Refuses
    """Of a path, whether it is answered 429 now."""
    requests: list[str]
    """The paths that were asked for."""


@contextmanager
def full_service(refuses: Refuses, behind: str = "") -> Iterator[FullService]:
    """Serves on a free port; `behind` is the address of the service that has the answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            full.requests.append(self.path)
            if full.refuses(self.path):
                return self._send(429, b'{"error": "trainer capacity exhausted"}', {"content-type": "application/json"})
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            with httpx.stream(self.command, behind + self.path, content=body, headers=headers, timeout=60) as answer:
                content = b"".join(answer.iter_raw())
            kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
            return self._send(answer.status_code, content, kept)

        def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    full = FullService(f"http://127.0.0.1:{server.server_port}", refuses, [])
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield full
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_HOP = frozenset({"host", "content-length", "connection", "transfer-encoding", "server", "date"})
"""Headers of one connection, not of the message."""
