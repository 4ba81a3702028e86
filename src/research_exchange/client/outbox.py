"""How the reports of a script reach its Exchange: at once while it answers, through the spool while it is away."""

import atexit
import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from research_exchange.client.connection import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Connection, Json, http
from research_exchange.client.errors import ExchangeError, ExchangeRefused, ExchangeUnreachable
from research_exchange.client.spool import Report, Spool, SpoolProblem

__all__ = ["Outbox"]

REPORT_PATIENCE_SECONDS = 10.0
"""How long a report waits for an Exchange that does not answer, before it goes to the spool and the script goes on."""
REPORT_ANSWER_SECONDS = 20.0
"""How long it waits for an Exchange that listens and says nothing."""
EXIT_PATIENCE_SECONDS = 60.0
"""How long the end of a script waits for what is still in the spool."""

log = logging.getLogger(__name__)


@dataclass
class Outbox:
    """What a script says, on its way."""

    connection: Connection
    spool: Spool | None
    """None where every report waits until the Exchange has it."""
    patience: float = REPORT_PATIENCE_SECONDS
    _lost: int = field(default=0, repr=False)
    """Updates of metrics that the run had no room for, and that are nowhere."""
    _has_told: bool = field(default=False, repr=False)
    """That the run has no room for metrics."""
    _sender: threading.Thread | None = field(default=None, repr=False)
    _settles_at_exit: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.spool is not None and self.spool.waiting():
            self._send_in_background()

    def post(self, report: Report) -> Json | None:
        """The answer of the Exchange; None where the report waits in the spool, or is one of metrics without room.

        Raises:
            ExchangeRefused: the Exchange said no.
            ExchangeUnreachable: there is no spool, and no answer in the time allowed.
        """
        try:
            return self._post(report)
        except ExchangeRefused as refusal:
            if not report.is_dispensable(refusal):
                raise
            self._go_on_without(report, refusal)
            return None

    def _post(self, report: Report) -> Json | None:
        if self.spool is None:
            return report.post(self.connection)
        if not self.spool.waiting():
            try:
                return report.post(replace(self._without_patience, patience=self.patience))
            except ExchangeUnreachable as trouble:
                log.warning("%s Until it answers, what this script reports is kept in %s.", trouble, self.spool.folder)
        try:
            self.spool.add(report)
        except OSError as trouble:
            log.warning("%s cannot be written (%s), so the Exchange is waited for.", self.spool.folder, trouble)
            self.settle()
            return report.post(self.connection)
        self._send_in_background()
        return None

    def _go_on_without(self, report: Report, refusal: ExchangeRefused) -> None:
        """Metrics are what a script can do without; that it does is never silent."""
        where = self._keep_not_taken(report)
        if where is None:
            self._lost += 1
        if not self._has_told:
            self._has_told = True
            fate = "are lost" if where is None else f"are kept in {where}"
            log.warning("%s Metrics that find no room %s; the final update says how many.", refusal, fate)

    def _keep_not_taken(self, report: Report) -> Path | None:
        """Where it is kept, if it can be."""
        if self.spool is None:
            return None
        try:
            self.spool.keep_not_taken(report)
        except OSError:
            return None
        return self.spool.not_taken

    def count_not_taken(self) -> int:
        """How many updates of metrics the run had no room for, with those of earlier sessions that are kept."""
        return self._lost + (0 if self.spool is None else self.spool.count_not_taken())

    def settle(self, patience: float | None = None) -> None:
        """Wait until the Exchange has everything that was reported.

        Raises:
            ExchangeUnreachable: it does not answer within `patience` seconds, by default the connection's.
            ExchangeRefused: the token of the run is not good any more.
        """
        if self.spool is not None and self.spool.waiting():
            within = self.connection.patience if patience is None else patience
            _tell(self.spool.send(self.connection.for_seconds(within)))

    def settle_if_it_answers(self) -> None:
        """Like `settle`; where the Exchange is away, what waits goes on waiting."""
        with suppress(ExchangeError, SpoolProblem, OSError):
            self.settle(self.patience)

    def settle_or_say(self, patience: float) -> None:
        """Like `settle`; where it cannot, says what is left and how it is sent."""
        try:
            self.settle(patience)
        except (ExchangeError, SpoolProblem, OSError) as trouble:
            assert self.spool is not None, "without a spool there is nothing to settle"
            log.warning("%s", trouble)
            log.warning(
                "%d reports wait in %s; `rx spool send %s` posts them.",
                len(self.spool.waiting()),
                self.spool.folder,
                self.spool.folder,
            )

    @property
    def _without_patience(self) -> Connection:
        return replace(self.connection, patience=0.0, answer_seconds=REPORT_ANSWER_SECONDS)

    def _send_in_background(self) -> None:
        if not self._settles_at_exit:
            self._settles_at_exit = True
            http()  # made before, so closed after
            atexit.register(self.settle_or_say, EXIT_PATIENCE_SECONDS)
        if self._sender is None or not self._sender.is_alive():  # after a fork it is not, in the child
            self._sender = threading.Thread(target=self._send, name="rx-spool", daemon=True)
            self._sender.start()

    def _send(self) -> None:
        """Until nothing waits any more, or waiting is of no use."""
        assert self.spool is not None, "only what is in a spool is sent in the background"
        pause = FIRST_PAUSE_SECONDS
        while self.spool.waiting():
            try:
                _tell(self.spool.send(self._without_patience))
            except ExchangeUnreachable:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            except (ExchangeRefused, SpoolProblem, OSError) as trouble:
                log.error("%s What was reported stays in %s.", trouble, self.spool.folder)
                return


def _tell(refused: list[ExchangeRefused]) -> None:
    for refusal in refused:
        log.error("A report that had waited was refused: %s", refusal)
