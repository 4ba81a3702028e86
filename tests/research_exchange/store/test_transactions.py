"""Writers at once, transactions that fail, and what a reader gets back."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from research_exchange.store import LaunchMode, RandomIdentifiers, SessionEnd, Store
from research_exchange.store.database import BadDatabaseUrl
from research_exchange.store.tables import metadata
from tests.research_exchange.store.conftest import NOON, RUN, SPEC, TOKEN, run_of


def test_two_stores_writing_at_once_lose_nothing_and_leave_no_gap(store: Store, data: Path, database_url: str) -> None:
    other = Store.open(data, database_url)

    def post(store: Store, name: str) -> list[int]:
        sequences = []
        for number in range(50):
            with store.writing() as writer:
                sequences.append(writer.append_update(RUN, f"{name} {number}".encode(), None, NOON).sequence)
        return sequences

    with ThreadPoolExecutor() as pool:
        posted = [pool.submit(post, *who) for who in ((store, "a"), (other, "b"), (store, "c"))]
        sequences = [sequence for future in posted for sequence in future.result()]
    other.close()
    assert sorted(sequences) == list(range(1, 151))
    with store.reading() as reader:
        kept = reader.updates(RUN)
    assert [update.sequence for update in kept] == list(range(1, 151))
    assert {update.raw.decode() for update in kept} == {f"{name} {number}" for name in "abc" for number in range(50)}


def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.writing() as writer:
        writer.append_update(RUN, b"{}", None, NOON)
        raise ZeroDivisionError
    with store.reading() as reader:
        assert reader.updates(RUN) == []


def test_a_reader_sees_one_moment(store: Store) -> None:
    with store.reading() as reader:
        assert reader.count_updates(RUN) == 0
        with store.writing() as writer:
            writer.append_update(RUN, b"{}", None, NOON)
        assert reader.count_updates(RUN) == 0
    with store.reading() as reader:
        assert reader.count_updates(RUN) == 1


def test_raw_bytes_come_back_as_they_were(store: Store) -> None:
    raw = bytes(range(256)) + b"\x00 trailing"
    with store.writing() as writer:
        writer.append_update(RUN, raw, None, NOON)
    with store.reading() as reader:
        last = reader.update(RUN, 1)
    assert last is not None
    assert last.raw == raw


def test_times_come_back_in_utc(store: Store) -> None:
    tokyo = datetime(2026, 3, 1, 21, 30, 0, 123456, timezone(timedelta(hours=9)))
    with store.writing() as writer:
        writer.append_update(RUN, b"{}", None, tokyo)
    with store.reading() as reader:
        last = reader.update(RUN, 1)
    assert last is not None
    assert last.received_at.isoformat() == "2026-03-01T12:30:00.123456+00:00"


def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(Exception, match="must say its zone"), store.writing() as writer:
        writer.append_update(RUN, b"{}", None, NOON.replace(tzinfo=None))


def test_foreign_keys_hold(store: Store) -> None:
    with pytest.raises(IntegrityError, match=r"(?i)foreign key"), store.writing() as writer:
        writer.append_update("run_ffffffffff", b"{}", None, NOON)


def test_the_token_of_a_run_leads_to_that_run(store: Store) -> None:
    with store.writing() as writer:
        writer.add_run("run_ffffffffff", SPEC, LaunchMode.REDO, "rxr_other", NOON)
    with store.reading() as reader:
        found = [run_of(reader, token) for token in (TOKEN, "rxr_other", "rxr_none", "")]
    assert found == [RUN, "run_ffffffffff", None, None]


def test_runs_are_listed_newest_first_in_pages(store: Store) -> None:
    with store.writing() as writer:
        for minute in range(1, 4):
            later = NOON + timedelta(minutes=minute)
            writer.add_run(f"run_000000000{minute}", SPEC, LaunchMode.ORDINARY, f"t{minute}", later)
    with store.reading() as reader:
        assert [run.id for run in reader.runs(2, 0)] == ["run_0000000003", "run_0000000002"]
        assert [run.id for run in reader.runs(2, 2)] == ["run_0000000001", RUN]
        assert reader.count_runs() == 4


def test_a_session_ends_once(store: Store) -> None:
    with store.writing() as writer:
        writer.add_session(RUN, "ses_1", NOON)
        writer.end_session("ses_1", SessionEnd(NOON, 137, "killed"))
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.end_session("ses_1", SessionEnd(NOON, 0, "all well"))
    with store.reading() as reader:
        [session] = reader.sessions(RUN)
    assert session.end == SessionEnd(NOON, 137, "killed")


def test_sqlite_is_set_up_to_survive_a_power_cut(data: Path, sqlite_url: str) -> None:
    store = Store.open(data, sqlite_url)
    with store.reading() as reader:
        settings = {
            name: reader._connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    store.close()
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_postgresql_is_set_up_to_survive_a_power_cut(data: Path, postgresql_url: str) -> None:
    store = Store.open(data, postgresql_url)
    with store.reading() as reader:
        settings = {
            name: reader._connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("synchronous_commit", "transaction_isolation", "transaction_read_only", "lock_timeout")
        }
    store.close()
    assert settings == {
        "synchronous_commit": "on",
        "transaction_isolation": "repeatable read",
        "transaction_read_only": "on",
        "lock_timeout": "30s",
    }


def test_the_migrations_make_the_tables_that_the_code_names(raw: Connection) -> None:
    assert compare_metadata(MigrationContext.configure(raw), metadata) == []


def test_opening_again_finds_everything(store: Store, data: Path, database_url: str) -> None:
    again = Store.open(data, database_url)
    with again.reading() as reader:
        run = reader.run(RUN)
    again.close()
    assert run is not None
    assert (run.title, run.launch_mode) == ("A title", LaunchMode.ORDINARY)


def test_the_schema_has_a_number(raw: Connection) -> None:
    assert raw.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == ["0008"]


def test_words_that_no_database_can_keep_are_kept_as_well_as_they_can_be(store: Store) -> None:
    with store.writing() as writer:
        writer.add_refusal(RUN, "a\0b \ud800 ü", ["R-164"], None, NOON)
    with store.reading() as reader:
        [refusal] = reader.refusals(RUN)
    assert refusal.name == "a\ufffdb ? ü"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://user:secret@host/name", "mysql is not supported"),
        ("no url", "must have the form sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"),
    ],
)
def test_a_database_of_another_kind_is_refused_in_one_sentence(url: str, told: str, data: Path) -> None:
    with pytest.raises(BadDatabaseUrl, match=told) as refused:
        Store.open(data, url)
    assert "secret" not in str(refused.value)


def test_random_names_have_their_form() -> None:
    ids = RandomIdentifiers()
    made = [ids.idea(), ids.spec(), ids.run(), ids.session(), ids.hook()]
    assert [name.partition("_")[0] for name in made] == ["idea", "exp", "run", "ses", "hook"]
    assert all(re.fullmatch("[a-z]+_[0-9a-f]{10}", name) for name in made)
    assert len({ids.runner_token() for _ in range(100)}) == 100
    assert (ids.runner_token()[:4], ids.access_token()[:4]) == ("rxr_", "rxa_")
