"""Looks at the store on behalf of all who watch runs: for what happened without a word to this process.

Another server over the same store may have written, or a round of housekeeping here. However many watch a run, it is
looked at once.
"""

from research_exchange.server.bell import Bell
from research_exchange.server.events import Position, reached
from research_exchange.store import Clock, Reader, Store

LOOK_EVERY = 2.0
"""Seconds."""


class Lookout:
    """Rings the bell for each run of which there is more, and each token that is no good any more."""

    def __init__(self, store: Store, clock: Clock, bell: Bell) -> None:
        self._store = store
        self._clock = clock
        self._bell = bell
        self._seen: dict[str, Position | bool] = {}
        """What the last look found, of everything that was listened for then."""

    def look(self) -> None:
        """What is listened for since the last look only is rung for once: nobody knows what it missed."""
        names = self._bell.names()
        if not names:
            self._seen = {}
            return
        with self._store.reading() as reader:
            seen = {name: self._look_at(reader, name) for name in names}
        before, self._seen = self._seen, seen
        for name in names:
            if before.get(name) != seen[name]:
                self._bell.ring(name)

    def _look_at(self, reader: Reader, name: str) -> Position | bool:
        """How far a run has come, or whether a token is good."""
        if name.startswith("run_"):
            return reached(reader, name)
        token = reader.token_with_id(name)
        return token is not None and not token.why_refused(self._clock())
