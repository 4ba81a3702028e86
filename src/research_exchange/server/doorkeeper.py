"""ASGI middleware at the door: the name a request was sent to, its declared size, and how often its sender asks.

All of it is decided from the request line and the headers, before a body is read or a route is looked up.
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from research_exchange.server.door import Door
from research_exchange.server.errors import error_response
from research_exchange.server.limits import MAX_DECLARED_BYTES, MAX_UPDATE_BYTES
from research_exchange.server.ratelimit import Buckets


class Doorkeeper:
    """Lets a request in, or answers it with the error that says why not: 400, 413, 421 or 429.

    Args:
        app: What stands behind the door.
        door: What is asked of a request.
    """

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door
        self._callers = Buckets(door.per_caller) if door.per_caller else None
        self._addresses = Buckets(door.per_address) if door.per_address else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if not self._door.answers(headers.get("host", "")):
            return error_response(
                421,
                "This Exchange does not answer under the name in the request's Host header; open it under localhost, "
                "or start it with that name in RX_HOSTS.",
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy that goes by the other one of them would take a part of this body for somebody's next request.
            return error_response(
                400,
                "A request says how long it is once: by Content-Length or by Transfer-Encoding.",
                headers={"Connection": "close"},
            )
        declared = headers.get("content-length", "0")
        if not declared.isascii() or not declared.isdigit():
            return error_response(400, "The header Content-Length is the number of bytes of the body.")
        if len(declared) > 18 or int(declared) > MAX_DECLARED_BYTES:
            return error_response(
                413,
                f"A request may carry {MAX_UPDATE_BYTES:,} bytes at most; send less, or send it in parts.",
                headers={"Connection": "close"},
            )
        wait = self._wait(scope, headers)
        if wait is not None:
            sentence = f"Too many requests; send the next one in {wait} s."
            return error_response(429, sentence, headers={"Retry-After": str(wait)})
        return None

    def _wait(self, scope: Scope, headers: Headers) -> int | None:
        """Seconds until the sender may ask again; None when it may now."""
        address = (scope.get("client") or ("unknown",))[0]
        wait = self._addresses.take(address) if self._addresses is not None else None
        if wait is None and self._callers is not None:
            wait = self._callers.take(headers.get("authorization") or headers.get("cookie") or address)
        return wait
