"""The two things a store cannot compute from its input: the time, and fresh names. Both are injected."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Gives the present moment, aware and in UTC."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class Identifiers(Protocol):
    """Fresh names; two calls never give the same one."""

    def idea(self) -> str:
        """`idea_` + 10 lowercase hex."""
        ...

    def spec(self) -> str:
        """`exp_` + 10 lowercase hex (R-002)."""
        ...

    def run(self) -> str:
        """`run_` + 10 lowercase hex (R-004)."""
        ...

    def session(self) -> str:
        """`ses_` + 10 lowercase hex."""
        ...

    def hook(self) -> str:
        """`hook_` + 10 lowercase hex."""
        ...

    def runner_token(self) -> str:
        """`rxr_` + 256 random bits: the secret that lets a runner write to its one run (R-241)."""
        ...

    def access_token(self) -> str:
        """`rxa_` + 256 random bits: the secret of a person or a program."""
        ...


class RandomIdentifiers:
    """Names from the operating system's random source."""

    def idea(self) -> str:
        return f"idea_{secrets.token_hex(5)}"

    def spec(self) -> str:
        return f"exp_{secrets.token_hex(5)}"

    def run(self) -> str:
        return f"run_{secrets.token_hex(5)}"

    def session(self) -> str:
        return f"ses_{secrets.token_hex(5)}"

    def hook(self) -> str:
        return f"hook_{secrets.token_hex(5)}"

    def runner_token(self) -> str:
        return f"rxr_{secrets.token_urlsafe(32)}"

    def access_token(self) -> str:
        return f"rxa_{secrets.token_urlsafe(32)}"
