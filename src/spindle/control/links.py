"""Download links that need no key: each is signed for one path and one moment until which it is good."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

from spindle.control.errors import ForbiddenError
from spindle.control.keys import write_secret

LIFETIME = timedelta(hours=1)
"""How long a link is good; clients ask for new ones five minutes before its end."""

SECRET = 64
"""Hex digits that links are signed with."""


@dataclass(frozen=True)
class Link:
    """A signed path, relative to the server."""

    target: str
    """Path and query."""
    expires: datetime


class Links:
    """Signs and checks paths with a secret that is kept in the data folder, so links outlive a restart."""

    def __init__(self, data: Path, now: Callable[[], datetime]) -> None:
        self._now = now
        path = data / "link-secret"
        if not path.exists() or len(path.read_bytes().strip()) < SECRET:  # a crash may have left a file without content
            write_secret(path, secrets.token_hex(SECRET // 2))
        self._secret = path.read_bytes().strip()

    def sign(self, path: str) -> Link:
        """A link to a path of this server."""
        expires = (self._now() + LIFETIME).replace(microsecond=0)
        stamp = str(int(expires.timestamp()))
        query = urlencode({"expires": stamp, "signature": self._signature(path, stamp)})
        return Link(quote(path, safe="/:") + "?" + query, expires)

    def check(self, path: str, expires: str, signature: str) -> None:
        """`ForbiddenError` unless this server signed exactly that, and its time has not passed."""
        if not hmac.compare_digest(self._signature(path, expires).encode(), signature.encode()):
            raise ForbiddenError(
                "This download link is not one that this server made for this file: ask for a new one "
                "(get_external_weights_urls), and use it unchanged."
            )
        if int(expires) <= self._now().timestamp():
            raise ForbiddenError("This download link has expired: ask for a new one (get_external_weights_urls).")

    def _signature(self, path: str, expires: str) -> str:
        return hmac.new(self._secret, f"{path}\n{expires}".encode(), hashlib.sha256).hexdigest()
