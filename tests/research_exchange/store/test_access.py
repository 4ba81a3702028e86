"""Tokens that end or are revoked, and the log of who did what (R-241)."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from research_exchange.store import LaunchMode, Role, Store
from tests.research_exchange.store.conftest import NOON, RUN, SPEC, TOKEN

WEEK = timedelta(days=7)


def test_a_token_ends_at_its_moment_and_not_before(store: Store) -> None:
    with store.writing() as writer:
        writer.add_run("run_1111111111", SPEC, LaunchMode.REDO, "rxr_week", NOON, RUN, NOON + WEEK)
    with store.reading() as reader:
        at_last = NOON + WEEK - timedelta(microseconds=1)
        ended = reader.any_token("rxr_week")
        run = reader.run("run_1111111111")
    assert ended is not None
    assert ended.run_id == "run_1111111111"
    assert ended.why_refused(NOON + WEEK) == "it ended at 2026-03-08 12:00 UTC"
    assert ended.why_refused(at_last) is None
    assert run is not None
    assert run.redo_of == RUN


def test_a_revoked_token_is_no_good_and_says_since_when(store: Store) -> None:
    with store.writing() as writer:
        token = writer.add_token("rxa_ada", Role.RESEARCHER, "ada", NOON)
        writer.revoke_token(token.id, NOON + WEEK)
        writer.revoke_token(token.id, NOON + 2 * WEEK)
    with store.reading() as reader:
        revoked = reader.any_token("rxa_ada")
    assert revoked is not None
    assert revoked.why_refused(NOON) == "it was revoked at 2026-03-08 12:00 UTC"


def test_tokens_are_listed_without_their_secrets(store: Store) -> None:
    with store.writing() as writer:
        token = writer.add_token("rxa_ada", Role.ADMIN, "ada", NOON + WEEK)
    with store.reading() as reader:
        listed = reader.tokens(10, 0)
        assert reader.tokens(10, 0, RUN) == listed[1:]
        assert (reader.count_tokens(), reader.count_tokens(RUN)) == (2, 1)
        assert reader.token_with_id(token.id) == token
    assert listed[0] == token
    assert (listed[1].role, listed[1].run_id) == (Role.RUNNER, RUN)
    assert "secret" not in str(listed)


@pytest.mark.parametrize(("role", "run"), [(Role.RUNNER, None), (Role.REVIEWER, RUN)])
def test_runners_and_only_runners_have_a_run(store: Store, role: Role, run: str | None) -> None:
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.add_token("rxa_odd", role, "odd", NOON, run)


def test_a_secret_is_given_once(store: Store) -> None:
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.add_token(TOKEN, Role.ADMIN, "again", NOON)


def test_the_log_says_who_did_what_newest_first(store: Store) -> None:
    with store.writing() as writer:
        writer.add_audit(NOON, "tok_ada", "run.create", RUN, {"spec": SPEC})
        writer.add_audit(NOON, "tok_bob", "run.cancel", RUN)
        writer.add_audit(NOON, "tok_bob", "token.revoke", "tok_ada")
    with store.reading() as reader:
        newest = [(entry.number, entry.action) for entry in reader.audit(2, 0)]
        [cancelled, created] = reader.audit(10, 0, RUN)
        assert (reader.count_audit(), reader.count_audit(RUN)) == (3, 2)
    assert newest == [(3, "token.revoke"), (2, "run.cancel")]
    assert (cancelled.actor, cancelled.detail) == ("tok_bob", {})
    assert (created.actor, created.detail) == ("tok_ada", {"spec": SPEC})


def test_an_error_names_no_value_of_the_row_that_was_refused(store: Store) -> None:
    """What the server logs of a database that is busy or full must not have the address of a hook in it."""
    with pytest.raises(IntegrityError) as error, store.writing() as writer:
        for _ in range(2):
            writer.add_token("rxa_twice", Role.REVIEWER, "not to be logged", NOON)
    assert "not to be logged" not in str(error.value)
