"""What a run has posted since one last looked."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from research_exchange.client import Exchange, ExchangeUnreachable

UPDATES_AT_ONCE = 200
"""As many as a page of the API can have."""


class Follower:
    """Reads a run's updates in order, each once."""

    def __init__(self, exchange: Exchange, run_id: str) -> None:
        """`exchange` should have little patience, so that looking never holds up whoever looks."""
        self._exchange = exchange
        self._run_id = run_id
        self._seen = 0

    def new_updates(self) -> Iterator[dict[str, Any]]:
        """The bodies posted since the last call, however many; while the Exchange is away there are none.

        What is posted while they are read is left to the next call, so that each call comes to an end.
        """
        try:
            page = self._page()
            until = page["total"]
            while True:
                yield from self._bodies(page["updates"])
                if self._seen >= until:
                    return
                page = self._page()
        except ExchangeUnreachable:
            return

    def _page(self) -> dict[str, Any]:
        """The updates after those that were seen; they are numbered from 1 in order of receipt, without a gap."""
        return self._exchange.updates(self._run_id, limit=UPDATES_AT_ONCE, offset=self._seen)

    def _bodies(self, updates: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for update in updates:
            raw = self._exchange.posted(self._run_id, update["sequence"])
            self._seen = update["sequence"]
            if "malformed" not in update:
                yield json.loads(raw)
