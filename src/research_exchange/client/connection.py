"""Requests with patience: an Exchange that is away, busy or restarting is asked again, with growing pauses."""

import atexit
import functools
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from research_exchange.client.errors import ExchangeError, ExchangeRefused, ExchangeUnreachable
from research_exchange.whereabouts import proof

__all__ = ["PATIENCE_SECONDS", "Connection", "Json", "as_sentence", "encode"]

PATIENCE_SECONDS = 300.0
"""How long a call goes on asking an Exchange that does not answer."""
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
ANSWER_SECONDS = 60.0
"""How long an Exchange that listens may say nothing."""
CONNECT_SECONDS = 5.0
KEPT_ALIVE_SECONDS = 3.0
"""Shorter than a server keeps an idle connection (5 s), so that none is used while it closes."""

Json = dict[str, Any]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Connection:
    """The way to an Exchange, for whoever holds a token."""

    url: str
    token: str | None = field(repr=False)
    patience: float = PATIENCE_SECONDS
    answer_seconds: float = ANSWER_SECONDS

    def for_seconds(self, patience: float) -> "Connection":
        """The same with other patience."""
        return replace(self, patience=patience)

    def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The first answer that is not "try again".

        Raises:
            ExchangeError: the token cannot be one.
            ExchangeRefused: the answer is a 4xx.
            ExchangeUnreachable: no answer within `patience` seconds.
        """
        sent = {**self._headers, **(headers or {})}
        timeout = httpx.Timeout(self.answer_seconds, connect=CONNECT_SECONDS)
        started, pause = time.monotonic(), FIRST_PAUSE_SECONDS
        while True:
            try:
                response = http().request(
                    method, self.url + path, content=content, params=params, headers=sent, timeout=timeout
                )
            except httpx.TransportError as error:
                trouble, asked_to_wait = type(error).__name__, 0.0
            else:
                if not _is_temporary(response):
                    return _accepted(response)
                trouble, asked_to_wait = f"HTTP {response.status_code}", _retry_after(response)
            waited = time.monotonic() - started
            if waited + max(pause, asked_to_wait) > self.patience:
                raise ExchangeUnreachable(
                    f"No Exchange answers at {self.url} ({trouble}; asked for {waited:.0f} s). "
                    "Start one with `rx serve`."
                )
            if pause == FIRST_PAUSE_SECONDS:
                log.warning("The Exchange at %s does not answer (%s); asking again.", self.url, trouble)
            time.sleep(max(pause, asked_to_wait))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def send_json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """The answer as JSON, to a body of JSON."""
        content = None if body is None else encode(body)
        answer: Json = self.send(method, path, content, params=params, headers=headers).json()
        return answer

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], *, silence_seconds: float) -> Iterator[httpx.Response]:
        """An answer that is read while it comes, without patience.

        Raises:
            ExchangeRefused: the answer is a 4xx.
            ExchangeUnreachable: there is none now, or it stops, or nothing comes for `silence_seconds`.
        """
        timeout = httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS)
        try:
            with http().stream("GET", self.url + path, headers={**self._headers, **headers}, timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                if _is_temporary(answer):
                    raise ExchangeUnreachable(f"The Exchange at {self.url} answers HTTP {answer.status_code}.")
                yield _accepted(answer)
        except httpx.TransportError as error:
            raise ExchangeUnreachable(f"No Exchange answers at {self.url} ({type(error).__name__}).") from error

    def is_up(self) -> bool:
        """Whether an Exchange answers right now."""
        try:
            return bool(http().get(f"{self.url}/health", timeout=5.0).json()["status"] == "ok")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
            return False

    def proves(self, secret: str) -> bool:
        """Whether whoever answers right now knows this secret. Neither it nor a token is sent."""
        challenge = secrets.token_hex(16)
        try:
            answer = http().get(f"{self.url}/identity", params={"challenge": challenge}, timeout=5.0).json()
            return hmac.compare_digest(str(answer["proof"]).encode(), proof(secret, challenge).encode())
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
            return False

    @property
    def _headers(self) -> dict[str, str]:
        if not self.token:
            return {}
        if not (self.token.isascii() and self.token.isprintable()):
            raise ExchangeError("The token has a character that no token has, such as the end of a line; set it anew.")
        return {"Authorization": f"Bearer {self.token}"}


@functools.cache
def http() -> httpx.Client:
    """The connections of this process, made once: reading the certificates alone takes a quarter of a second.

    What runs on this machine is reached directly, whatever proxy the environment names.
    """
    client = httpx.Client(
        limits=httpx.Limits(keepalive_expiry=KEPT_ALIVE_SECONDS),
        mounts={f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")},
    )
    atexit.register(client.close)
    return client


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    # A child that shared its parent's connections would read the parent's answers.
    os.register_at_fork(after_in_child=http.cache_clear)


def encode(body: Mapping[str, Any]) -> bytes:
    """A body as strict JSON.

    Raises:
        ValueError: something in it is not a finite number (R-068).
    """
    try:
        return json.dumps(body, allow_nan=False).encode()
    except ValueError as error:
        raise ValueError(
            f"A metric or document value is not a finite number ({error}); leave out what was not measured (R-068)."
        ) from error


def as_sentence(problem: str | Mapping[str, Any]) -> str:
    """A problem as a sentence, whether it comes as one or with its parts beside it."""
    return problem if isinstance(problem, str) else str(problem["text"])


def _is_temporary(response: httpx.Response) -> bool:
    return response.status_code == 429 or response.status_code >= 500


def _retry_after(response: httpx.Response) -> float:
    """The seconds that a busy Exchange asks for, at most the longest pause."""
    asked = response.headers.get("retry-after", "")
    return min(float(asked), LONGEST_PAUSE_SECONDS) if asked.isdigit() else 0.0


def _accepted(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    rule = None
    try:
        answer = response.json()
        sentence, problems = str(answer["error"]), [as_sentence(problem) for problem in answer.get("problems") or ()]
        rule = answer.get("rule")
    except (ValueError, KeyError, TypeError, AttributeError):
        sentence, problems = f"The Exchange answered HTTP {response.status_code} without saying why.", []
    raise ExchangeRefused(sentence, status=response.status_code, problems=problems, rule=rule)
