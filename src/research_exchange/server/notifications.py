"""Sending what hooks are to be told, again and again with growing pauses, until it was taken.

What is to be told is written down in the transaction that makes it so (`hooks`), and sent from here: nothing is lost
when the server is killed in between, and a message may arrive twice. Each carries a name by which a receiver can tell.
"""

import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from research_exchange.documents.json import JsonValue, canonical
from research_exchange.server.hooks import GATE_FAILED, RUN_ENDED, message_of
from research_exchange.server.outgoing import OutgoingRefused
from research_exchange.server.outside import Outside
from research_exchange.server.slack_api import SlackRefused, escaped
from research_exchange.server.views import moment, recorded_judgment
from research_exchange.store import (
    Clock,
    DeliveryRecord,
    DeliveryStatus,
    HookKind,
    HookRecord,
    Reader,
    RunPhase,
    RunRecord,
    Store,
)

log = logging.getLogger(__name__)

PAUSES = tuple(timedelta(seconds=seconds) for seconds in (10, 30, 60, 300, 900, 3600, 10_800, 21_600))
"""Between one attempt and the next; when the last one fails as well, a message is given up."""
SEND_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 * 1024
POLL_SECONDS = 1.0
LOOK_SECONDS = 15.0
"""Between two looks at the runs that go on, where a hook wants to hear of failed gates."""
MAX_LOOKED_AT = 200
"""Runs of one look, the newest first."""
MAX_AT_ONCE = 50
"""Messages of one round."""


class NotTaken(Exception):
    """Why a message was not taken: a clause, without any secret."""


class Notifications:
    """Sends what is pending. Several servers over one store may each do it; a message is then sent more than once."""

    def __init__(self, store: Store, clock: Clock, outside: Outside, judge: Callable[[str], object]) -> None:
        self._store = store
        self._clock = clock
        self._outside = outside
        self._judge = judge
        """Judges a run, and notes by that which of its gates have failed."""
        self._looked_at: dict[str, int] = {}
        """How many updates a run had when it was judged for its hooks."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Send in the background from now on."""
        self._thread = threading.Thread(target=self._send_again_and_again, name="notifications", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the message that is being sent; the others wait for the next start."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(2 * SEND_SECONDS)

    def send_due(self) -> int:
        """Try messages whose time has come, each once, the oldest first; says how many that were."""
        now, status = self._clock(), DeliveryStatus.PENDING
        with self._store.reading() as reader:
            # All of them: many that wait for their pause must not stand before one that nobody has tried yet.
            pending = reader.deliveries(reader.count_deliveries(status=status), 0, status=status)
        due = [each for each in reversed(pending) if _is_due(each, now)][:MAX_AT_ONCE]
        for delivery in due:
            if self._stopped.is_set():
                break
            self._attempt(delivery)
        return len(due)

    def look_at_gates(self) -> None:
        """Judge the runs that go on and have new updates, when a hook wants to hear of failed gates."""
        with self._store.reading() as reader:
            if not any(GATE_FAILED in hook.events for hook in reader.hooks()):
                return
            running = reader.runs(MAX_LOOKED_AT, 0, phase=RunPhase.RUNNING)
            updates = {run.id: reader.count_updates(run.id) for run in running}
        for run_id in [run_id for run_id, count in updates.items() if count > self._looked_at.get(run_id, 0)]:
            if not self._stopped.is_set():
                self._judge(run_id)
        self._looked_at = updates

    def _send_again_and_again(self) -> None:
        looked = time.monotonic()
        while not self._stopped.wait(POLL_SECONDS):
            try:
                if time.monotonic() - looked >= LOOK_SECONDS:
                    looked = time.monotonic()
                    self.look_at_gates()
                self.send_due()
            except Exception:
                log.exception("Messages could not be sent; they are tried again.")

    def _attempt(self, delivery: DeliveryRecord) -> None:
        with self._store.reading() as reader:
            hook = reader.hook(delivery.hook_id)
            run = reader.run(delivery.run_id)
            assert hook is not None and run is not None, "foreign keys say that they are there"
            message = self._message(reader, delivery, run)
            thread = message_of(reader, run)
        attempts = delivery.attempts + 1
        status = DeliveryStatus.FAILED if attempts > len(PAUSES) else DeliveryStatus.PENDING
        try:
            if hook.removed_at is not None:
                status, detail = DeliveryStatus.FAILED, "the hook was removed"
            elif hook.kind is HookKind.SLACK:
                if thread is None or self._outside.slack.api is None:
                    raise NotTaken("no Slack app is connected here")
                self._outside.slack.api.reply(thread, escaped(str(message["text"])))
                status, detail = DeliveryStatus.DELIVERED, "replied"
            else:
                status, detail = DeliveryStatus.DELIVERED, self._post(hook, delivery, message)
        except (NotTaken, SlackRefused, OutgoingRefused) as trouble:
            detail = str(trouble)
        with self._store.writing() as writer:
            writer.set_delivery(delivery, self._clock(), attempts, status, detail)

    def _post(self, hook: HookRecord, delivery: DeliveryRecord, message: Mapping[str, JsonValue]) -> str:
        secret = self._outside.hook_secrets.get(hook.secret_ref or "")
        if not secret:
            raise NotTaken(f"{hook.secret_ref} is not set in the server's environment")
        body = canonical(dict(message))
        sent_at = str(int(self._clock().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "research-exchange",
            "X-Exchange-Event": str(message["event"]),
            "X-Exchange-Delivery": str(message["delivery"]),
            "X-Exchange-Signature": f"t={sent_at},v1={signature(secret, sent_at, body)}",
        }
        answer = self._outside.network.send(
            "POST", urlsplit(hook.url), headers=headers, body=body, limit=MAX_ANSWER_BYTES, seconds=SEND_SECONDS
        )
        if not 200 <= answer.status < 300:
            raise NotTaken(f"answered {answer.status}")
        return f"answered {answer.status}"

    def _message(self, reader: Reader, delivery: DeliveryRecord, run: RunRecord) -> dict[str, JsonValue]:
        """What is said of an event, from what is on record."""
        event, _, what = delivery.event.partition("#")
        page = self._outside.page(f"/runs/{run.id}")
        said: dict[str, JsonValue] = {
            "event": event,
            "delivery": f"{delivery.hook_id}/{delivery.number}",
            "run": run.id,
            "spec_id": run.spec_id,
            "title": run.title,
            "page": page,
        }
        about = _end(reader, run, int(what)) if event == RUN_ENDED else {"gate": what, "text": f"Gate {what} failed"}
        sentence = f"{about['text']}: {run.title} ({run.id})." + (f" {page}" if page else "")
        return {**said, **about, "text": sentence}


def signature(secret: str, sent_at: str, body: bytes) -> str:
    """What signs a webhook: HMAC-SHA256 over the time it was sent at, a dot, and the body, in hex."""
    return hmac.new(secret.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def _end(reader: Reader, run: RunRecord, number: int) -> dict[str, JsonValue]:
    outcome = reader.outcomes(run.id)[number - 1]
    judged = recorded_judgment(outcome)
    verdict, reason = judged.get("recorded_verdict"), judged.get("outcome_reason")
    return {
        "outcome": number,
        "recorded_at": moment(outcome.recorded_at),
        "verdict": verdict,
        "reason": reason,
        "reported_verdict": judged.get("reported_verdict"),
        "withheld": judged.get("withheld"),
        "text": f"Run ended, {verdict or 'no verdict'} ({str(reason or outcome.cause).replace('_', ' ')})",
    }


def _is_due(delivery: DeliveryRecord, now: datetime) -> bool:
    if delivery.attempts == 0:
        return True
    pause = PAUSES[min(delivery.attempts, len(PAUSES)) - 1]
    # A clock that was set back makes nothing wait longer than its pause.
    return now >= delivery.at + pause or now < delivery.at
