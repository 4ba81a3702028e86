"""What lies outside an Exchange and how it gets there: attachment services, Slack, and whoever is told of a run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from research_exchange.server.fetching import Fetcher
from research_exchange.server.outgoing import Network
from research_exchange.server.slack import SlackSettings

PUBLIC_URL_VARIABLE = "RX_PUBLIC_URL"
PRIVATE_HOOKS_VARIABLE = "RX_HOOKS_PRIVATE"
SECRET_PREFIX = "RX_HOOK_"
"""What the name of a variable starts with that holds a hook's secret; no other is ever read for one."""


@dataclass(frozen=True)
class Outside:
    """The other services, as the environment names them."""

    fetcher: Fetcher = field(default_factory=Fetcher)
    slack: SlackSettings = field(default_factory=SlackSettings)
    network: Network = field(default_factory=Network)
    """On which hooks are reached."""
    public_url: str | None = None
    """The address under which people open this Exchange."""
    hook_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By the variable's name."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Outside":
        """`RX_HOOKS_PRIVATE=1` allows hooks on this machine and in private networks, which are refused without it."""
        private = environment.get(PRIVATE_HOOKS_VARIABLE, "") not in ("", "0")
        secrets = {name: value for name, value in environment.items() if name.startswith(SECRET_PREFIX) and value}
        return cls(
            fetcher=Fetcher.from_environment(environment),
            slack=SlackSettings.from_environment(environment),
            network=Network(allows_private=private),
            public_url=environment.get(PUBLIC_URL_VARIABLE, "").strip().rstrip("/") or None,
            hook_secrets=secrets,
        )

    def page(self, path: str) -> str | None:
        """The address of one of our pages, for people elsewhere; None where nobody said what it is."""
        return None if self.public_url is None else self.public_url + path
