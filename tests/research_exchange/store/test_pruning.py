"""Retention: what is of no more use goes after a while, and nothing that was acknowledged goes with it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import Connection

from research_exchange.store import DeliveryStatus, EvidenceRecord, FolderBlobs, Role, RunnerKind, Store
from research_exchange.store.backups.making import BACKED_UP
from research_exchange.store.backups.rows import rows_of
from research_exchange.store.pruning import Pruned, prune
from tests.research_exchange.store.conftest import HOOK, NOON, RUN, one_row_in_every_table

MONTH = timedelta(days=30)
LATER = NOON + timedelta(days=40)
MAY_GO = {"tokens", "deliveries", "attachments"}


def _age(store: Store, *digests: str) -> None:
    """Make bytes two days old."""
    assert isinstance(store.blobs, FolderBlobs)
    for digest in digests:
        moment = store.blobs.path(digest).stat().st_mtime - 2 * 24 * 3600
        os.utime(store.blobs.path(digest), (moment, moment))


def _acknowledged(store: Store) -> dict[str, list[object]]:
    with store.snapshot() as connection:
        return {table.name: list(rows_of(connection, table)) for table in BACKED_UP if table.name not in MAY_GO}


@pytest.fixture
def used(store: Store) -> Store:
    """A store in which everything that may go stands beside something alike that may not."""
    with store.writing() as writer:
        one_row_in_every_table(writer)
        writer.cache_judgment(RUN, "e" * 64, "1", b"{}", LATER)
        writer.add_token("rxa_ended", Role.REVIEWER, "ended", NOON, expires_at=NOON + timedelta(days=5))
        writer.add_token("rxa_ends", Role.REVIEWER, "ended lately", NOON, expires_at=NOON + timedelta(days=15))
        writer.revoke_token(writer.add_token("rxa_revoked", Role.REVIEWER, "revoked", NOON).id, NOON)
        for event in ("run.ended#1", "gate.failed#activation_gate", "run.ended#2"):
            done = writer.add_delivery(HOOK, RUN, event, NOON)
            writer.set_delivery(done, NOON, 1, DeliveryStatus.DELIVERED, "200")
        writer.add_session(RUN, "ses_1111111111", NOON, RunnerKind.AGENT, store.blobs.put(b"a brief"))
        writer.add_evidence(RUN, EvidenceRecord("c", "log", store.blobs.put(b"named"), 5, None, NOON, 1))
    _age(store, *(store.blobs.put(content) for content in (b"a brief", b"named", b"unnamed")))
    store.blobs.put(b"unnamed, but new")
    return store


def test_only_what_may_go_goes(used: Store) -> None:
    before = _acknowledged(used)
    expected = Pruned(cached_judgments=1, tokens=2, deliveries=1, attachments=1, blobs=1, cut_off_uploads=0)
    assert prune(used, LATER, MONTH, dry_run=True) == expected
    assert prune(used, LATER, MONTH) == expected
    assert prune(used, LATER, MONTH) == Pruned(0, 0, 0, 0, 0, 0)
    assert _acknowledged(used) == before
    with used.reading() as reader:
        assert reader.cached_judgment(RUN, "e" * 64, "1") == b"{}"
        assert {token.name for token in reader.tokens(10, 0)} == {RUN, "ada", "ended lately"}
        kept_deliveries = {delivery.event for delivery in reader.deliveries(10, 0)}
    assert kept_deliveries == {"run.ended", "gate.failed#activation_gate", "run.ended#2"}, (
        "one waits, one must not be told again, and the newest one keeps the count"
    )
    kept = {used.blobs.read(digest) for digest in used.blobs.digests()}
    assert kept == {b"a brief", b"named", b"unnamed, but new"}


@pytest.mark.parametrize("database_url", ["sqlite_url"], indirect=True)
def test_bytes_offered_again_are_as_good_as_new(store: Store) -> None:
    """A row is about to name them: whoever prunes at this moment must pass over them."""
    digest = store.blobs.put(b"refused once, and sent again")
    _age(store, digest)
    store.blobs.put(b"refused once, and sent again")
    assert prune(store, LATER, MONTH).blobs == 0
    assert store.blobs.read(digest)


@pytest.mark.parametrize("database_url", ["sqlite_url"], indirect=True)
def test_bytes_offered_again_while_somebody_prunes_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were listed as old, and then a file came whose row is written in a moment."""
    content, snapshot = b"refused once, and sent again", store.snapshot
    digest = store.blobs.put(content)
    _age(store, digest)

    @contextmanager
    def offered_meanwhile() -> Iterator[Connection]:
        with snapshot() as connection:
            yield connection
        store.blobs.put(content)

    monkeypatch.setattr(store, "snapshot", offered_meanwhile)
    assert prune(store, LATER, MONTH).blobs == 0
    assert store.blobs.read(digest) == content
