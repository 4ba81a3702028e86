"""A real HTTPS service on this machine that answers under names which a test resolves as it likes."""

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import PROTOCOL_TLS_CLIENT, PROTOCOL_TLS_SERVER, SSLContext

import trustme

from research_exchange.server.outgoing import Address, Network

PUBLIC: Address = ipaddress.ip_address("93.184.216.34")


@dataclass(frozen=True)
class Request:
    method: str
    host: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Reply]


@dataclass
class Service:
    """What came in, and the network on which it is reached."""

    requests: list[Request]
    dialled: list[Address]
    resolved: list[str]
    network: Network
    port: int


@contextmanager
def service(
    handler: Handler,
    *names: str,
    resolve: Callable[[str], Sequence[Address]] = lambda _: [PUBLIC],
    tls: bool = True,
) -> Iterator[Service]:
    """Serve `handler` under `names`; whatever address is dialled leads to it."""
    authority = trustme.CA()
    requests: list[Request] = []

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, headers["host"], self.path, headers, body)
            requests.append(request)
            reply = handler(request)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.content)), **reply.headers}.items():
                if value:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(reply.content)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    # A client that breaks off is what some tests are about.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if tls:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    dialled: list[Address] = []
    resolved: list[str] = []
    port: int = server.server_address[1]

    def look_up(host: str) -> Sequence[Address]:
        resolved.append(host)
        return resolve(host)

    def connect(address: Address, _: int, seconds: float) -> socket.socket:
        dialled.append(address)
        return socket.create_connection(("127.0.0.1", port), timeout=seconds)

    trusting = SSLContext(PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    try:
        yield Service(requests, dialled, resolved, Network(look_up, connect, lambda: trusting), port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
