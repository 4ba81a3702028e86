"""Hooks: whom to tell of a run's events, and the note in the store that something is to be told."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from urllib.parse import SplitResult, urlsplit

from research_exchange.documents.gates import GateResult, GateStatus
from research_exchange.server.access import Caller
from research_exchange.server.errors import ApiError
from research_exchange.server.outgoing import is_public
from research_exchange.server.outside import PRIVATE_HOOKS_VARIABLE, SECRET_PREFIX, Outside
from research_exchange.server.slack import BOT_TOKEN_VARIABLE
from research_exchange.server.slack_api import Message
from research_exchange.store import (
    Clock,
    DeliveryRecord,
    HookKind,
    HookRecord,
    Identifiers,
    Reader,
    RunRecord,
    Store,
    Writer,
)

RUN_ENDED = "run.ended"
GATE_FAILED = "gate.failed"
EVENTS = (RUN_ENDED, GATE_FAILED)

_SECRET_NAME = re.compile(rf"{SECRET_PREFIX}[A-Z0-9_]{{1,60}}")


class Hooks:
    """The hooks of an Exchange."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers, outside: Outside) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._outside = outside

    def add(
        self,
        kind: HookKind,
        who: Caller,
        *,
        url: str | None = None,
        secret: str | None = None,
        events: Sequence[str] = (),
    ) -> HookRecord:
        """Tell somebody from now on.

        Args:
            kind: How: a signed POST, or a reply to the Slack message that a run's idea was made from.
            who: Who says so.
            url: Where a webhook is posted.
            secret: Name of the environment variable with the secret that signs a webhook: `RX_HOOK_…`.
            events: What of; by default everything.

        Raises:
            ApiError: 422 when it cannot be told like that.
        """
        unknown = [event for event in events if event not in EVENTS]
        if unknown:
            raise ApiError(422, f"There is no event {unknown[0]!r}; there are {' and '.join(EVENTS)}.")
        if kind is HookKind.SLACK:
            where, secret_ref = self._slack(url, secret)
        else:
            where, secret_ref = self._webhook(url, secret)
        with self._store.writing() as writer:
            now = self._clock()
            hook = writer.add_hook(self._ids.hook(), kind, where, secret_ref, tuple(events) or EVENTS, now)
            detail = {"kind": kind.value, "url": shown_url(hook), "events": [*hook.events]}
            writer.add_audit(now, who.actor, "hook.add", hook.id, detail)
        return hook

    def remove(self, hook_id: str, who: Caller) -> HookRecord:
        """Tell it nothing any more."""
        with self._store.writing() as writer:
            if writer.hook(hook_id) is None:
                raise unknown_hook(hook_id)
            now = self._clock()
            writer.remove_hook(hook_id, now)
            writer.add_audit(now, who.actor, "hook.remove", hook_id)
            removed = writer.hook(hook_id)
        assert removed is not None, "hooks are never deleted"
        return removed

    def page(self, limit: int, offset: int) -> tuple[list[HookRecord], int]:
        """Oldest first, without those that were removed, and how many there are in all."""
        with self._store.reading() as reader:
            return reader.hooks(limit, offset), reader.count_hooks()

    def deliveries(self, hook_id: str, limit: int, offset: int) -> tuple[list[DeliveryRecord], int]:
        """What it was told or is to be told, newest first, and how much that is in all."""
        with self._store.reading() as reader:
            if reader.hook(hook_id) is None:
                raise unknown_hook(hook_id)
            return reader.deliveries(limit, offset, hook_id), reader.count_deliveries(hook_id)

    def _webhook(self, url: str | None, secret: str | None) -> tuple[str, str]:
        parts = _split(url or "")
        schemes = ("https", "http") if self._outside.network.allows_private else ("https",)
        if parts is None or parts.scheme not in schemes or not parts.hostname or "@" in parts.netloc or parts.fragment:
            raise ApiError(
                422, f"A webhook has an address of {' or '.join(schemes)}, without user, password or fragment."
            )
        if not self._outside.network.allows_private and _is_private_literal(parts.hostname):
            raise ApiError(
                422,
                f"This is not a public address; hooks in private networks take {PRIVATE_HOOKS_VARIABLE}=1.",
            )
        if secret is None or not _SECRET_NAME.fullmatch(secret):
            raise ApiError(
                422, f"A webhook is signed: name the environment variable with its secret, {SECRET_PREFIX} and a name."
            )
        if not self._outside.hook_secrets.get(secret):
            raise ApiError(422, f"The server's environment has no {secret}; set it and start the server again.")
        return parts.geturl(), secret

    def _slack(self, url: str | None, secret: str | None) -> tuple[str, str]:
        if url is not None or secret is not None:
            raise ApiError(422, "A Slack hook replies to the message of a run's idea; it has neither url nor secret.")
        if self._outside.slack.api is None:
            raise ApiError(422, f"No Slack app is connected here; start the Exchange with {BOT_TOKEN_VARIABLE}.")
        return "", BOT_TOKEN_VARIABLE


def announce_end(writer: Writer, run_id: str, outcome: int, at: datetime) -> None:
    """Note that a run ended with the outcome of this number; part of the transaction that records it."""
    _announce(writer, run_id, [f"{RUN_ENDED}#{outcome}"], at)


def announce_gates(writer: Writer, run_id: str, gates: Iterable[GateResult], at: datetime) -> None:
    """Note which gates of a run have failed; each is told once."""
    failed = [f"{GATE_FAILED}#{gate.gate}" for gate in gates if gate.status is GateStatus.FAILED]
    if failed:
        _announce(writer, run_id, failed, at)


def message_of(reader: Reader, run: RunRecord) -> Message | None:
    """The Slack message that a run's idea was made from."""
    spec = reader.spec(run.spec_id)
    idea = reader.idea(spec.idea_id) if spec is not None and spec.idea_id is not None else None
    return None if idea is None else Message.of_source_key(idea.source_key)


def shown_url(hook: HookRecord) -> str | None:
    """Where a hook leads, without the part that may be as good as a password."""
    if hook.kind is HookKind.SLACK:
        return None
    parts = urlsplit(hook.url)
    return f"{parts.scheme}://{parts.netloc}/…"


def unknown_hook(hook_id: str) -> ApiError:
    return ApiError(404, f"No hook {hook_id!r} is known here; GET /api/hooks lists those that are.")


def _announce(writer: Writer, run_id: str, events: Sequence[str], at: datetime) -> None:
    hooks = writer.hooks()
    if not hooks:
        return
    run = writer.run(run_id)
    assert run is not None, "a run that is judged is on record"
    has_message = message_of(writer, run) is not None
    for hook in hooks:
        if hook.kind is HookKind.SLACK and not has_message:
            continue
        told = {delivery.event for delivery in writer.deliveries(1000, 0, hook.id, run_id)}
        for event in events:
            if event.partition("#")[0] in hook.events and event not in told:
                writer.add_delivery(hook.id, run_id, event, at)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def _is_private_literal(host: str) -> bool:
    try:
        return not is_public(ipaddress.ip_address(host))
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
