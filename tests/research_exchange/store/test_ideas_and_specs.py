"""Ideas with their snapshots, and which of them a spec version came from (R-001 to R-003)."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from research_exchange.store import IdeaRecord, SpecRecord, Store
from tests.research_exchange.store.conftest import IDEA, NOON, SPEC


@pytest.fixture(autouse=True)
def idea(store: Store) -> None:
    """An idea that was edited once."""
    with store.writing() as writer:
        writer.add_idea(IdeaRecord(IDEA, NOON, "ada", "slack:T1:C2:3.4"))
        writer.add_snapshot(IDEA, NOON, "ada", "An idea")
        writer.add_snapshot(IDEA, NOON + timedelta(hours=1), "bob", "A better idea", "In short.", triage="Try it.")


def test_an_edit_adds_a_snapshot_and_the_last_one_is_current(store: Store) -> None:
    with store.reading() as reader:
        first, second = reader.snapshots(IDEA, 10, 0)
        current = reader.current_snapshot(IDEA)
        assert reader.snapshots(IDEA, 1, 1) == reader.snapshots(IDEA, 1, 0, newest_first=True) == [second]
        assert [reader.had_triage(IDEA, words) for words in ("Try it.", "")] == [True, False]
    assert (first.number, first.title, first.summary, first.triage) == (1, "An idea", None, None)
    assert (second.number, second.author, second.triage) == (2, "bob", "Try it.")
    assert current == second


def test_a_redelivered_message_finds_its_idea(store: Store) -> None:
    with store.reading() as reader:
        found = reader.idea_with_source("slack:T1:C2:3.4")
        assert reader.idea_with_source("slack:T1:C2:3.5") is None
    assert found == IdeaRecord(IDEA, NOON, "ada", "slack:T1:C2:3.4")
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.add_idea(IdeaRecord("idea_1111111111", NOON, "eve", "slack:T1:C2:3.4"))


def test_ideas_without_a_source_are_many(store: Store) -> None:
    with store.writing() as writer:
        for number in (1, 2):
            writer.add_idea(IdeaRecord(f"idea_{number:010}", NOON + timedelta(minutes=number), "ada"))
    with store.reading() as reader:
        assert reader.count_ideas() == 3
        assert [idea.id for idea in reader.ideas(2, 0)] == ["idea_0000000002", "idea_0000000001"]
        assert [idea.id for idea in reader.ideas(2, 2)] == [IDEA]


def test_a_version_keeps_the_snapshot_that_was_current(store: Store) -> None:
    version = SpecRecord("exp_1111111111", "b" * 64, "Second", NOON + timedelta(hours=2), b"{}", SPEC, IDEA, 2)
    with store.writing() as writer:
        writer.add_spec(version)
        writer.add_snapshot(IDEA, NOON + timedelta(hours=3), "ada", "Yet another")
    with store.reading() as reader:
        assert reader.spec("exp_1111111111") == version
        assert reader.spec_with_digest("b" * 64) == version
        assert reader.specs(10, 0, IDEA) == [version]
        assert [spec.id for spec in reader.specs(10, 0)] == ["exp_1111111111", SPEC]
        assert (reader.count_specs(), reader.count_specs(IDEA), reader.count_specs("idea_none")) == (2, 1, 0)


@pytest.mark.parametrize("origin", [("exp_ffffffffff", None, None), (None, IDEA, 3), (None, IDEA, None)])
def test_a_version_comes_from_what_there_is(store: Store, origin: tuple[str | None, str | None, int | None]) -> None:
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.add_spec(SpecRecord("exp_1111111111", "b" * 64, "Second", NOON, b"{}", *origin))
    with store.reading() as reader:
        assert reader.spec("exp_1111111111") is None
