from hypothesis import given
from hypothesis import strategies as st

from spindle.engine.ordering import OrderedQueue


def drain(queue: OrderedQueue[int]) -> list[int]:
    taken = []
    while queue.ready is not None:
        taken.append(queue.take())
        queue.finish(0.0)
    return taken


@given(st.permutations(range(8)))
def test_every_arrival_order_gives_the_same_execution_order(arrival: list[int]) -> None:
    queue = OrderedQueue[int](clock_started=0.0)
    executed = []
    for sequence_id in arrival:
        assert queue.put(sequence_id, sequence_id, 0.0)
        executed += drain(queue)
    assert executed == list(range(8))


@given(st.lists(st.integers(0, 6)))
def test_an_id_runs_once(arrival: list[int]) -> None:
    queue = OrderedQueue[int](clock_started=0.0)
    executed = []
    for sequence_id in arrival:
        queue.put(sequence_id, sequence_id, 0.0)
        executed += drain(queue)
    first_hole = next(number for number in range(8) if number not in arrival)
    assert executed == list(range(first_hole))


def test_nothing_is_ready_while_an_item_runs() -> None:
    queue = OrderedQueue[int](clock_started=0.0)
    queue.put(0, 0, 0.0)
    queue.put(1, 1, 0.0)
    queue.take()
    assert queue.ready is None
    queue.finish(0.0)
    assert queue.ready == 1


def test_a_gap_is_overdue_only_after_the_limit_and_only_with_something_behind_it() -> None:
    queue = OrderedQueue[int](clock_started=0.0)
    assert not queue.overdue(1000.0, 60.0)
    queue.put(2, 2, 100.0)
    queue.put(1, 1, 130.0)
    assert not queue.overdue(159.0, 60.0)
    assert queue.overdue(160.0, 60.0)
    assert queue.skip() == [1, 2]
    assert not queue.put(0, 0, 161.0)
    assert queue.put(3, 3, 161.0)
    assert drain(queue) == [3]


def test_time_spent_running_does_not_count_as_a_gap() -> None:
    queue = OrderedQueue[int](clock_started=0.0)
    queue.put(0, 0, 0.0)
    queue.take()
    queue.put(2, 2, 1.0)
    assert not queue.overdue(1000.0, 60.0)
    queue.finish(1000.0)
    assert not queue.overdue(1059.0, 60.0)
    assert queue.overdue(1060.0, 60.0)
