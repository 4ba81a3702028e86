"""The application called in this process, without a socket."""

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI

ADDRESS = "http://spindle.example:8250"


class Caller:
    """Sends requests to an application with the same headers each time; paths are below /api/v1."""

    def __init__(self, app: FastAPI, **headers: str) -> None:
        self._app = app
        self._headers = headers

    def __call__(self, method: str, url: str, **arguments: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            address = f"{ADDRESS}/api/v1"
            async with httpx.AsyncClient(transport=transport, base_url=address, headers=self._headers) as client:
                return await client.request(method, url, **arguments)

        return asyncio.run(send())

    def get(self, url: str, **arguments: Any) -> httpx.Response:
        return self("GET", url, **arguments)

    def post(self, url: str, **arguments: Any) -> httpx.Response:
        return self("POST", url, **arguments)

    def put(self, url: str, **arguments: Any) -> httpx.Response:
        return self("PUT", url, **arguments)

    def delete(self, url: str) -> httpx.Response:
        return self("DELETE", url)
