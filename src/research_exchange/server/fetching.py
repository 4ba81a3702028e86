"""Fetching attachments by their address, from the hosts on a list alone (R-166, R-242).

An attachment service may answer with a redirect to a signed address that is good for a minute. It is followed to the
hosts that are named for that, checked like the first one, and neither kept nor shown.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urljoin, urlsplit

from research_exchange.evidence import source_url_problems
from research_exchange.server.attachments import FetchRefused
from research_exchange.server.outgoing import Network, OutgoingRefused

HOSTS_VARIABLE = "RX_ATTACHMENT_HOSTS"
REDIRECT_HOSTS_VARIABLE = "RX_ATTACHMENT_REDIRECT_HOSTS"
TOKEN_VARIABLE = "RX_ATTACHMENT_TOKEN"

MAX_REDIRECTS = 2
SECONDS = 30.0
"""For each of the addresses that are asked."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Fetcher:
    """Fetches what stands at an attachment's address."""

    hosts: Collection[str] = ()
    """The runners' attachment services; nothing is fetched from anywhere else."""
    redirect_hosts: Collection[str] = ()
    """Where these may redirect to, besides themselves."""
    token: str | None = field(default=None, repr=False)
    """Sent to the attachment services, and to nobody that they redirect to."""
    network: Network = field(default_factory=Network)
    seconds: float = SECONDS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Fetcher":
        """With the hosts in `RX_ATTACHMENT_HOSTS` and `RX_ATTACHMENT_REDIRECT_HOSTS`, separated by commas."""
        return cls(
            hosts=_names(environment.get(HOSTS_VARIABLE, "")),
            redirect_hosts=_names(environment.get(REDIRECT_HOSTS_VARIABLE, "")),
            token=environment.get(TOKEN_VARIABLE) or None,
        )

    def fetch(self, url: str, limit: int) -> bytes:
        """The bytes at an address, at most `limit` of them.

        Raises:
            FetchRefused: The address is not one to fetch from, or what came back is not to be kept.
        """
        problems = source_url_problems(url, self.hosts)
        if problems:
            raise FetchRefused(str(problems[0].found))
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = self.network.send("GET", urlsplit(url), headers=headers, limit=limit, seconds=self.seconds)
            except OutgoingRefused as refused:
                raise FetchRefused(str(refused)) from None
            if answer.status == 200:
                return answer.content
            if answer.status not in _REDIRECTS:
                raise FetchRefused(f"the attachment service answered {answer.status}")
            url, headers = self._redirected(url, answer.headers.get("location", "")), {}
        raise FetchRefused("the attachment service redirected again and again")

    def _redirected(self, url: str, location: str) -> str:
        """Where a redirect leads to, when that is among the hosts named for it."""
        try:
            target = urljoin(url, location)
            parts = urlsplit(target)
            if _is_plain(parts) and parts.hostname in {*self.hosts, *self.redirect_hosts}:
                return target
        except ValueError:
            pass
        raise FetchRefused("the attachment service redirected to an address that is not on the list")


def _is_plain(parts: SplitResult) -> bool:
    """Whether an address is https and has neither user nor port nor fragment."""
    return parts.scheme == "https" and parts.netloc.lower() == parts.hostname and not parts.fragment


def _names(listed: str) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in listed.split(",") if name.strip())
