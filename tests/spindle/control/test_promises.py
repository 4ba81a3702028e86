import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from spindle.backends.contract import UserError
from spindle.control.promises import KEEP_FETCHED, Category, Failure, LostError, PromiseBook, failed
from spindle.control.results import ModelCreated


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def done(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_the_same_ids_give_the_same_promise_and_start_once() -> None:
    book = PromiseBook()
    started = []

    def start() -> "Future[Any]":
        started.append(1)
        return Future()

    assert book.make("m:1", "s", start) is book.make("m:1", "s", start)
    assert book.make("m:2", "s", start) is not book.get("m:1")
    assert len(started) == 2


def test_an_outcome_is_waited_for_and_a_timeout_is_none() -> None:
    future: Future[Any] = Future()
    promise = PromiseBook().make("m:1", "s", lambda: future)

    async def poll() -> list[Any]:
        early = await promise.outcome(0.01)
        threading.Timer(0.05, future.set_result, [ModelCreated("m")]).start()
        return [early, *await asyncio.gather(promise.outcome(5), promise.outcome(5))]

    assert asyncio.run(poll()) == [None, ModelCreated("m"), ModelCreated("m")]


@pytest.mark.parametrize(
    ("error", "category", "words"),
    [
        (UserError("rank is 0"), Category.USER, "rank is 0"),
        (LostError("restarted"), Category.SERVER, "restarted"),
        (RuntimeError("out of memory"), Category.SERVER, "RuntimeError: out of memory"),
    ],
)
def test_a_failure_has_its_category_and_sentence(error: Exception, category: Category, words: str) -> None:
    promise = PromiseBook().make("m:1", "s", lambda: failed(error))
    outcome = asyncio.run(promise.outcome(0))
    assert isinstance(outcome, Failure)
    assert outcome.category is category
    assert words in outcome.error


def test_a_submit_that_is_refused_is_a_failed_promise() -> None:
    def start() -> "Future[Any]":
        raise UserError("no such model")

    outcome = asyncio.run(PromiseBook().make("m:1", "s", start).outcome(0))
    assert outcome == Failure("no such model", Category.USER)


def test_a_cancelled_promise_says_so() -> None:
    book = PromiseBook()
    promise = book.make("m:1", "s", Future)
    book.cancel("m:1")
    book.cancel("unknown")
    outcome = asyncio.run(promise.outcome(0))
    assert isinstance(outcome, Failure)
    assert "cancelled" in outcome.error


def test_a_result_that_came_before_its_cancellation_is_not_kept_for_ever() -> None:
    clock = Clock()
    book = PromiseBook(clock)
    book.make("ended", "s", lambda: done(1))
    book.cancel("ended")
    clock.time += KEEP_FETCHED + 1
    book.tidy({"s"})
    assert book.get("ended") is None


def test_results_are_kept_until_fetched_and_a_while_after() -> None:
    clock = Clock()
    book = PromiseBook(clock)
    for name in ("fetched", "unfetched"):
        book.make(name, "s", lambda: done(1))
    book.make("pending", "ended", Future)
    book.make("abandoned", "ended", lambda: done(1))
    clock.time = 10 * KEEP_FETCHED
    book.fetched("fetched")
    book.tidy({"s"})
    clock.time += KEEP_FETCHED - 1
    book.tidy({"s"})
    assert book.get("fetched") and book.get("abandoned")
    clock.time += 2
    book.tidy({"s"})
    assert [name for name in ("fetched", "unfetched", "pending", "abandoned") if book.get(name)] == [
        "unfetched",
        "pending",
    ]
