"""Runs that wait, run, end and are cancelled: the queue, the sessions, and what a list of runs says of them."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from research_exchange.store import ASKED_FOR, LaunchMode, RunnerKind, RunPhase, SessionEnd, Store, Writer
from tests.research_exchange.store.conftest import NOON, RUN, SPEC

MINUTE = timedelta(minutes=1)
OTHER = "run_1111111111"


def _phase(store: Store) -> RunPhase:
    with store.reading() as reader:
        run = reader.run(RUN)
        assert run is not None
        for phase in RunPhase:
            listed = reader.runs(10, 0, phase=phase)
            assert [each.id for each in listed] == ([RUN] if phase is run.phase else [])
            assert reader.count_runs(phase=phase) == len(listed)
    return run.phase


def _end(writer: Writer, session: str) -> None:
    writer.end_session(session, SessionEnd(NOON, 0, "the command ended"))


def test_a_run_is_created_queued_taken_running_and_ended(store: Store) -> None:
    assert _phase(store) is RunPhase.CREATED
    with store.writing() as writer:
        entry = writer.enqueue(RUN, NOON, "every slot is taken", "ada")
    assert _phase(store) is RunPhase.QUEUED
    with store.writing() as writer:
        writer.claim(entry, NOON + MINUTE, "worker 1")
        writer.add_session(RUN, "ses_1", NOON + MINUTE)
    assert _phase(store) is RunPhase.RUNNING
    with store.writing() as writer:
        _end(writer, "ses_1")
    assert _phase(store) is RunPhase.ENDED


def test_a_run_whose_final_update_is_judged_has_ended_though_nobody_left(store: Store) -> None:
    """And one that somebody asked to judge meanwhile has not."""
    with store.writing() as writer:
        writer.add_session(RUN, "ses_1", NOON)
        writer.record_outcome(RUN, ASKED_FOR, "1", b"{}", NOON)
    assert _phase(store) is RunPhase.RUNNING
    with store.writing() as writer:
        writer.record_outcome(RUN, "final update 1", "1", b"{}", NOON)
    assert _phase(store) is RunPhase.ENDED


def test_a_new_session_makes_an_ended_run_run_again_whatever_the_clock_says(store: Store) -> None:
    with store.writing() as writer:
        writer.add_session(RUN, "ses_2", NOON)
        _end(writer, "ses_2")
        writer.record_outcome(RUN, "end of session ses_2", "1", b"{}", NOON)
        writer.add_session(RUN, "ses_1", NOON - 60 * MINUTE)
    assert _phase(store) is RunPhase.RUNNING
    with store.reading() as reader:
        assert [(session.number, session.id) for session in reader.sessions(RUN)] == [(1, "ses_2"), (2, "ses_1")]


def test_a_cancelled_run_waits_no_more(store: Store) -> None:
    with store.writing() as writer:
        writer.enqueue(RUN, NOON, "every slot is taken", "ada")
        first = writer.cancel_run(RUN, NOON, "ada", "a mistake")
        assert writer.cancel_run(RUN, NOON + MINUTE, "bob", "me too") == first
    assert _phase(store) is RunPhase.CANCELLED
    with store.reading() as reader:
        assert reader.queue() == []
        assert reader.cancellation(RUN) == first
        assert [entry.reason for entry in reader.queue_entries(RUN)] == ["every slot is taken"]


def test_the_queue_has_its_order_and_what_is_due_comes_first(store: Store) -> None:
    with store.writing() as writer:
        writer.add_run(OTHER, SPEC, LaunchMode.ORDINARY, "rxr_other", NOON)
        writer.enqueue(RUN, NOON, "capacity was refused", "exchange", NOON + 15 * MINUTE)
        writer.enqueue(OTHER, NOON + MINUTE, "every slot is taken", "ada")
    with store.reading() as reader:
        assert [(queued.run.id, queued.entry.reason) for queued in reader.queue()] == [
            (RUN, "capacity was refused"),
            (OTHER, "every slot is taken"),
        ]
        assert reader.next_due(NOON) is None
        due = [reader.next_due(NOON + minutes * MINUTE) for minutes in (1, 14, 15)]
    assert [queued and queued.run.id for queued in due] == [OTHER, OTHER, RUN]


def test_an_entry_is_taken_once_and_a_run_can_wait_again(store: Store) -> None:
    with store.writing() as writer:
        entry = writer.enqueue(RUN, NOON, "first", "ada")
        writer.claim(entry, NOON + MINUTE, "worker 1")
        assert writer.queue() == []
        writer.enqueue(RUN, NOON + 2 * MINUTE, "second", "exchange")
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.claim(entry, NOON + MINUTE, "worker 2")
    with store.reading() as reader:
        first, second = reader.queue_entries(RUN)
    assert (first.number, first.claimed_at, first.claimed_by) == (1, NOON + MINUTE, "worker 1")
    assert (second.number, second.claimed_at, second.reason) == (2, None, "second")


def test_a_session_beats_and_remembers_its_brief(store: Store) -> None:
    with store.writing() as writer:
        writer.add_session(RUN, "ses_1", NOON, RunnerKind.AGENT, "e" * 64)
        writer.add_session(RUN, "ses_2", NOON)
        writer.beat("ses_1", NOON + MINUTE)
        writer.beat("ses_1", NOON + 2 * MINUTE)
        _end(writer, "ses_2")
    with store.reading() as reader:
        [waiting] = reader.open_sessions()
        assert reader.session("ses_1") == waiting
        assert reader.session("ses_3") is None
    assert (waiting.id, waiting.run_id, waiting.runner, waiting.brief_sha256) == ("ses_1", RUN, "agent", "e" * 64)
    assert waiting.last_seen == NOON + 2 * MINUTE


def test_runs_of_a_spec_are_listed_apart(store: Store) -> None:
    with store.reading() as reader:
        assert [run.id for run in reader.runs_of_spec(SPEC)] == [RUN]
        assert reader.runs_of_spec("exp_none") == []
        assert (reader.count_runs(SPEC), reader.count_runs("exp_none")) == (1, 0)
