"""What waits: counted against its limit, and heard of when it ends."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from spindle.backends.contract import UserError
from spindle.control.completions import Completion, Completions
from spindle.control.errors import BusyError
from spindle.control.limits import Gauge
from spindle.control.pauses import USUAL, Pauses


def test_a_gauge_counts_what_has_not_ended_however_it_ends() -> None:
    gauge = Gauge("queued_tokens", "tokens", 10)
    futures: list[Future[Any]] = [Future() for _ in range(3)]
    for future in futures:
        gauge.admit(3)
        gauge.hold(3, future, "m")
    with pytest.raises(BusyError, match="9 tokens wait or run already, 2 more would exceed 10") as refusal:
        gauge.admit(2)
    assert refusal.value.limit == "queued_tokens"
    gauge.admit(1)
    futures[0].set_result(None)
    futures[1].set_exception(UserError("no"))
    futures[2].cancel()
    gauge.admit(10**9)
    assert gauge.held_by("m") == 0


def test_threads_that_end_things_together_are_all_counted() -> None:
    gauge = Gauge("queued_sequences", "samples", 1)
    futures: list[Future[Any]] = [Future() for _ in range(400)]
    for future in futures:
        gauge.hold(1, future, "m")
    threads = [
        threading.Thread(target=lambda part=part: [f.set_result(None) for f in part])
        for part in (futures[:200], futures[200:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gauge.admit(1)
    gauge.admit(5)


def test_completions_come_in_the_order_in_which_things_ended_and_once_they_were_heard_they_go() -> None:
    completions = Completions()
    futures: dict[str, Future[Any]] = {name: Future() for name in "abc"}
    for name, future in futures.items():
        completions.follow(name, future)
    futures["c"].set_result(1)
    futures["a"].set_exception(UserError("no"))
    first = asyncio.run(completions.after(0, 5))
    assert first == [Completion(1, "c", False), Completion(2, "a", True)]
    assert asyncio.run(completions.after(1, 5)) == first[1:]
    assert asyncio.run(completions.after(2, 0)) == []
    futures["b"].cancel()
    assert asyncio.run(completions.after(2, 5)) == [Completion(3, "b", True)]


def test_everybody_who_waits_is_woken_from_another_thread() -> None:
    completions, future = Completions(), Future[Any]()
    completions.follow("a", future)

    async def both() -> list[list[Completion]]:
        waiting = [asyncio.create_task(completions.after(0, 20)) for _ in range(2)]
        await asyncio.sleep(0.05)
        threading.Thread(target=lambda: future.set_result(1)).start()
        return [await task for task in waiting]

    assert asyncio.run(both()) == [[Completion(1, "a", False)]] * 2


def test_only_a_long_absence_is_a_pause() -> None:
    now = 0.0
    pauses = Pauses(lambda: now)
    assert pauses.since_last_look() == 0.0
    now += USUAL
    assert pauses.since_last_look() == 0.0
    now += 500.0
    assert pauses.since_last_look() == 500.0
    assert pauses.since_last_look() == 0.0
