"""Updates under keys, gates of an outcome, judgments kept for their inputs, and messages about them."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from research_exchange.documents.gates import Applicability, GateResult, GateStatus
from research_exchange.store import DeliveryStatus, HookKind, Store
from tests.research_exchange.store.conftest import HOOK, NOON, RUN


def test_an_update_is_found_by_its_key_and_a_key_is_used_once(store: Store) -> None:
    with store.writing() as writer:
        first = writer.append_update(RUN, b'{"a": 1}', None, NOON, "key 1")
        writer.append_update(RUN, b'{"a": 1}', None, NOON)
        writer.append_update(RUN, b'{"a": 2}', None, NOON)
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.append_update(RUN, b'{"a": 3}', None, NOON, "key 1")
    with store.reading() as reader:
        standing = reader.standing(RUN, "key 1")
        assert standing.keyed == (first.sequence, first.sha256)
        assert standing.last_number == 3
        assert reader.standing(RUN, "key 2").keyed is reader.standing(RUN, None).keyed is None
        assert [update.sequence for update in reader.updates(RUN, after=1)] == [2, 3]
        [second] = reader.update_heads(RUN, 1, 1)
        assert [head.sequence for head in reader.update_heads(RUN, 2, 1, newest_first=True)] == [2, 1]
    assert (second.sequence, second.size, second.sha256) == (2, 8, first.sha256)


def test_the_gates_of_an_outcome_stand_beside_it(store: Store) -> None:
    gates = [
        GateResult("decision", Applicability.REQUIRED, GateStatus.UNVERIFIED, "No observations."),
        GateResult("activation", Applicability.NOT_APPLICABLE, GateStatus.NOT_APPLICABLE, "Not asked for."),
    ]
    with store.writing() as writer:
        writer.record_outcome(RUN, "final update 1", "7", b"{}", NOON, gates)
        writer.record_outcome(RUN, "asked for", "8", b"{}", NOON, gates[:1])
    with store.reading() as reader:
        kept = reader.gates(RUN)
    assert [(gate.outcome, gate.gate, gate.applicability, gate.status, gate.validator_version) for gate in kept] == [
        (1, "activation", "not_applicable", "not_applicable", "7"),
        (1, "decision", "required", "unverified", "7"),
        (2, "decision", "required", "unverified", "8"),
    ]


def test_a_judgment_is_kept_for_its_very_input_and_version(store: Store) -> None:
    with store.writing() as writer:
        writer.cache_judgment(RUN, "a" * 64, "1", b"old", NOON)
        writer.cache_judgment(RUN, "a" * 64, "1", b"new", NOON)
    with store.reading() as reader:
        assert reader.cached_judgment(RUN, "a" * 64, "1") == b"new"
        assert reader.cached_judgment(RUN, "a" * 64, "2") is None
        assert reader.cached_judgment(RUN, "b" * 64, "1") is None


def test_a_message_is_pending_until_it_is_delivered(store: Store) -> None:
    with store.writing() as writer:
        hook = writer.add_hook(HOOK, HookKind.SLACK, "https://example.org", None, ["run.ended", "gate.failed"], NOON)
        first = writer.add_delivery(HOOK, RUN, "run.ended", NOON)
        second = writer.add_delivery(HOOK, RUN, "gate.failed", NOON + timedelta(minutes=1))
        writer.set_delivery(first, NOON + timedelta(minutes=2), 2, DeliveryStatus.DELIVERED, "200 OK")
    with store.reading() as reader:
        assert reader.hook(HOOK) == hook
        assert reader.deliveries(10, 0, status=DeliveryStatus.PENDING) == [second]
        [delivered] = reader.deliveries(1, 0, HOOK, RUN)
        assert (reader.count_deliveries(), reader.count_deliveries(status=DeliveryStatus.FAILED)) == (2, 0)
    assert (delivered.number, delivered.attempts, delivered.status, delivered.detail) == (1, 2, "delivered", "200 OK")


def test_a_removed_hook_is_told_nothing_and_not_forgotten(store: Store) -> None:
    with store.writing() as writer:
        writer.add_hook(HOOK, HookKind.WEBHOOK, "https://example.org", "SECRET", ["run.ended"], NOON)
        writer.remove_hook(HOOK, NOON)
    with store.reading() as reader:
        assert reader.hooks() == []
        [removed] = reader.hooks(with_removed=True)
    assert removed.removed_at == NOON
