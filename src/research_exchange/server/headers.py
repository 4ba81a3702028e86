"""Response headers that every answer carries, whatever route gave it (R-222)."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""What a browser may do with an answer that is not a page: show it, and nothing else."""

_EVERYWHERE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ProtectiveHeaders:
    """ASGI middleware. A page that brings a content policy of its own keeps it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _EVERYWHERE.items():
                    headers[name] = value
                headers.setdefault("Content-Security-Policy", API_POLICY)
            await send(message)

        await self._app(scope, receive, send_protected if scope["type"] == "http" else send)
