"""How wide an Exchange's door stands: who may read without a token, under which names it answers, and how often.

On the loopback address, where only this machine's users arrive, reading is open and nothing has to be configured.
Everywhere else a token is asked for.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.server.ratelimit import Rate
from research_exchange.whereabouts import is_loopback

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
REQUIRE_LOGIN_VARIABLE = "RX_REQUIRE_LOGIN"
HOSTS_VARIABLE = "RX_HOSTS"
RATE_VARIABLE = "RX_RATE"

PER_CALLER = Rate(per_second=50, burst=500)
PER_ADDRESS = Rate(per_second=200, burst=2000)
"""Several runners of one site may share an address."""


class BadSetting(ValueError):
    """A setting that cannot be used, as one sentence."""


@dataclass(frozen=True)
class Door:
    """What is asked of a request before anything of it is read; by default what suits a server on loopback."""

    open_reads: bool = True
    """Whether reading takes no token."""
    hosts: frozenset[str] | None = LOOPBACK_NAMES
    """The names in a request's Host header that are answered, without port; None: any.

    Open reads need the list: without it a page from elsewhere could have its own name resolve to this machine and
    read everything through its reader's browser (DNS rebinding).
    """
    per_caller: Rate | None = None
    """How often one token may ask; None: as often as it likes."""
    per_address: Rate | None = None

    @classmethod
    def for_host(cls, host: str, environment: Mapping[str, str] = os.environ, *, require_login: bool = False) -> "Door":
        """The door of a server that listens on `host`.

        Args:
            host: The address or name that it listens on.
            environment: `RX_REQUIRE_LOGIN=1` asks for a token everywhere, `RX_HOSTS` lists further names that the
                server is reached by, separated by commas, and `RX_RATE` is how many requests one token may send a
                second.
            require_login: The same as `RX_REQUIRE_LOGIN=1`.

        Raises:
            BadSetting: `RX_RATE` is no number above 0.
        """
        named = frozenset(
            filter(None, (name.strip().lower() for name in environment.get(HOSTS_VARIABLE, "").split(",")))
        )
        per_caller = _rate(environment)
        login = require_login or environment.get(REQUIRE_LOGIN_VARIABLE, "") not in ("", "0")
        # Under the address that it listens on it announces itself: commands on its machine ask there.
        hosts = LOOPBACK_NAMES | {host.lower()} | named if named or is_loopback(host) else None
        if is_loopback(host) and not login:
            return cls(hosts=hosts, per_caller=per_caller)
        return cls(open_reads=False, hosts=hosts, per_caller=per_caller or PER_CALLER, per_address=PER_ADDRESS)

    def answers(self, host_header: str) -> bool:
        """Whether a request with this Host header is for this Exchange."""
        return self.hosts is None or name_of(host_header) in self.hosts


def name_of(host_header: str) -> str:
    """The name in a Host header: `[::1]:8300` → `::1`, `Localhost:8300` → `localhost`."""
    host = host_header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _rate(environment: Mapping[str, str]) -> Rate | None:
    given = environment.get(RATE_VARIABLE, "").strip()
    if not given:
        return None
    if not given.isascii() or not given.isdigit() or not 0 < int(given) <= 100_000:
        raise BadSetting(
            f"{RATE_VARIABLE} is the number of requests that one token may send a second, "
            f"a whole number from 1 to 100000; found {given[:40]!r}."
        )
    return Rate(per_second=float(given), burst=10 * float(given))
