"""Who follows a run sees each update once, however many came since one last looked."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from research_exchange.client import Exchange, ExchangeRefused, Run
from research_exchange.runner.follower import UPDATES_AT_ONCE, Follower
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.client.specs import SPEC


@pytest.fixture
def run(served: ServedExchange) -> Run:
    exchange = served.connect()
    return exchange.create_run(exchange.register(json.dumps(SPEC).encode()))


@pytest.fixture
def follower(served: ServedExchange, run: Run) -> Follower:
    return Follower(Exchange(served.url, run.token, patience=0), run.id)


def report(run: Run, steps: range) -> None:
    for step in steps:
        run.metric(step=step)


def steps(updates: Iterator[dict[str, Any]]) -> list[int]:
    return [update["metrics"]["step"] for update in updates]


def test_each_update_comes_once_and_in_order_also_when_more_than_a_page_came(run: Run, follower: Follower) -> None:
    assert list(follower.new_updates()) == []
    report(run, range(3))
    assert steps(follower.new_updates()) == [0, 1, 2]
    assert list(follower.new_updates()) == []
    last = 3 + 2 * UPDATES_AT_ONCE + 5
    report(run, range(3, last))
    assert steps(follower.new_updates()) == list(range(3, last))
    assert list(follower.new_updates()) == []


def test_what_is_malformed_is_passed_over(run: Run, follower: Follower) -> None:
    report(run, range(1))
    with pytest.raises(ExchangeRefused):
        run._http.send("POST", f"/api/runs/{run.id}/updates", b"{no update")
    report(run, range(1, 3))
    assert steps(follower.new_updates()) == [0, 1, 2]
    assert list(follower.new_updates()) == []


def test_what_comes_while_one_reads_is_left_to_the_next_look(run: Run, follower: Follower) -> None:
    report(run, range(2))
    reading = follower.new_updates()
    assert steps(islice(reading, 1)) == [0]
    report(run, range(2, 5))
    assert steps(reading) == [1]
    assert steps(follower.new_updates()) == [2, 3, 4]


def test_who_looks_while_the_exchange_is_away_sees_the_rest_later(run: Run, served: ServedExchange) -> None:
    follower = Follower(Exchange(served.url, run.token, patience=0), run.id)
    report(run, range(4))
    assert steps(islice(follower.new_updates(), 2)) == [0, 1]
    served.stop()
    try:
        assert list(follower.new_updates()) == []
    finally:
        served.start()
    assert steps(follower.new_updates()) == [2, 3]
