"""What a run has posted since one last looked."""

import json
from collections.abc import Iterator
from typing import Any

from research_exchange.client import Exchange, ExchangeUnreachable


class Follower:
    """Reads a run's updates in order, each once."""

    def __init__(self, exchange: Exchange, run_id: str) -> None:
        """`exchange` should have little patience, so that looking never holds up whoever looks."""
        self._exchange = exchange
        self._run_id = run_id
        self._seen = 0

    def new_updates(self) -> Iterator[dict[str, Any]]:
        """The bodies posted since the last call; while the Exchange is away there are none."""
        try:
            for update in self._exchange.run(self._run_id).record()["updates"]:
                if update["sequence"] > self._seen:
                    raw = self._exchange.posted(self._run_id, update["sequence"])
                    self._seen = update["sequence"]
                    if "malformed" not in update:
                        yield json.loads(raw)
        except ExchangeUnreachable:
            return
