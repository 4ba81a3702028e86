"""Judging a run no more often than what it is judged from changes.

A judgment is a function of documents (R-214). Their hashes, and for each retained file the state of its stored bytes,
make the name under which it is kept: in memory with all that it holds, in the database as bytes. Both are caches; a
judgment that is in neither is made again, with the same bytes.
"""

import json
import logging
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Lock

from research_exchange import judgment as rules
from research_exchange.judgment import Judgment
from research_exchange.server.hooks import announce_gates
from research_exchange.server.views import RunView, moment
from research_exchange.store import Clock, Store

log = logging.getLogger(__name__)

MAX_KEPT = 8
"""Judgments in memory; one of the largest run holds every row that decided it."""


class Judging:
    """The Exchange's reading of its runs. Safe to use from several threads: one judges, those who wait get the same."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], Judgment] = OrderedDict()
        self._under_way: dict[tuple[str, str], Lock] = {}
        self._lock = Lock()
        self._keeper = ThreadPoolExecutor(1, "judgments")
        self.made = 0
        """How many judgments were made and not found in a cache."""

    def judgment(self, view: RunView) -> Judgment:
        """What the rules say of a run at one moment."""
        return self._judgment(view, self._input(view))

    def judged(self, view: RunView) -> bytes:
        """The same as canonical JSON, read from the database where it was made before."""
        inputs = self._input(view)
        with self._lock:
            kept = self._kept.get((view.run.id, inputs))
        if kept is not None:
            return kept.canonical_bytes()
        with self._store.reading() as reader:
            known = reader.cached_judgment(view.run.id, inputs, rules.VERSION)
        return known or self._judgment(view, inputs).canonical_bytes()

    def close(self) -> None:
        """Keep what there is to keep, and nothing after that."""
        self._keeper.shutdown()

    def _judgment(self, view: RunView, inputs: str) -> Judgment:
        key = (view.run.id, inputs)
        with self._lock:
            turn = self._under_way.setdefault(key, Lock())
        with turn:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            made = view.judge()
            with self._lock:
                self.made += 1
                self._kept[key] = made
                self._under_way.pop(key, None)
                while len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
        self._keeper.submit(self._keep, view.run.id, inputs, made)
        return made

    def _keep(self, run_id: str, inputs: str, made: Judgment) -> None:
        """Apart from whoever asked: a reader waits for no lock, and gets the judgment even where it cannot be kept."""
        try:
            with self._store.writing() as writer:
                at = self._clock()
                writer.cache_judgment(run_id, inputs, rules.VERSION, made.canonical_bytes(), at)
                announce_gates(writer, run_id, made.gates, at)
        except Exception:
            log.exception("The judgment of %s could not be kept.", run_id)

    def _input(self, view: RunView) -> str:
        """The SHA-256 of all that decides a judgment."""
        documents = [
            view.spec.sha256,
            view.ended,
            [[head.sequence, head.sha256, moment(head.received_at), head.session_id] for head in view.heads],
            [
                [file.name, file.kind, file.sha256, file.update, file.after, self._store.blobs.state(file.sha256)]
                for file in view.files
            ],
        ]
        return sha256(json.dumps(documents).encode()).hexdigest()
