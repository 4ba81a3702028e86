"""What the Exchange does when it is told something: stored before it is answered, and judged when a run ends.

Everything a rule decides is decided by the rules; this module feeds them what the store holds.
"""

from research_exchange.server.attachments import Attachments
from research_exchange.server.bell import Bell
from research_exchange.server.errors import unknown_run
from research_exchange.server.folding import Folds
from research_exchange.server.hooks import Hooks
from research_exchange.server.ideas import Ideas
from research_exchange.server.judging import Judging
from research_exchange.server.launching import Launching
from research_exchange.server.listing import ListedUpdates, list_updates
from research_exchange.server.notifications import Notifications
from research_exchange.server.outside import Outside
from research_exchange.server.queueing import Queueing
from research_exchange.server.recording import Recording
from research_exchange.server.retaining import Retaining
from research_exchange.server.sitting import Sitting
from research_exchange.server.tokens import Tokens
from research_exchange.server.updating import Updating
from research_exchange.server.versions import SpecVersions
from research_exchange.server.views import RunView, view_run
from research_exchange.store import Cancellation, Clock, Identifiers, OutcomeRecord, Reader, Store


class Exchange:
    """The services behind the API and the pages. Each raises `ApiError` for what it cannot do."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers, outside: Outside | None = None) -> None:
        self.store = store
        self.clock = clock
        self.outside = outside or Outside()
        self.bell = Bell()
        self._folds = Folds()
        self.attachments = Attachments(store, clock, self.outside.fetcher)
        self.ideas = Ideas(store, clock, ids)
        self.versions = SpecVersions(store, clock, ids)
        self.tokens = Tokens(store, clock, ids)
        self.hooks = Hooks(store, clock, ids, self.outside)
        self.notifications = Notifications(store, clock, self.outside, self._judge)
        self.judging = Judging(store, clock)
        self.recording = Recording(store, clock, self._folds, self.judging)
        self.runs = Launching(store, clock, ids)
        self.queue = Queueing(store, clock, ids, self._folds)
        self.updates = Updating(store, clock, self._folds, self.recording, self.attachments)
        self.evidence = Retaining(store, clock, self.attachments)
        self.sessions = Sitting(store, clock, ids, self._folds, self.recording)

    def view(self, run_id: str) -> RunView:
        """Everything about a run, at one moment."""
        with self.store.reading() as reader:
            return self.view_of(reader, run_id)

    def view_of(self, reader: Reader, run_id: str) -> RunView:
        """Everything about a run, at the moment that a transaction sees."""
        view = view_run(reader, self.store, self._folds, run_id)
        if view is None:
            raise unknown_run(run_id)
        return view

    def updates_of(self, run_id: str, limit: int, offset: int, *, newest_first: bool = False) -> ListedUpdates:
        """A page of the updates of a run, without their bytes."""
        with self.store.reading() as reader:
            return list_updates(reader, self._folds, run_id, limit, offset, newest_first=newest_first)

    def cancel(self, run_id: str, by: str, reason: str) -> Cancellation:
        """Call a run off, and put on record what there is of it."""
        cancellation = self.queue.cancel(run_id, by, reason)
        self.recording.settle(run_id)
        return cancellation

    def _judge(self, run_id: str) -> None:
        self.judging.judged(self.view(run_id))

    def record_judgment(self, run_id: str, by: str) -> OutcomeRecord:
        """Put what the rules say of a run now on record, after what stands there."""
        return self.recording.record(self.view(run_id), by)
