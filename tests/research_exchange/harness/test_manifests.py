"""Batches that two arms share, and one arm's own: cut, consumed, reported, read by the Exchange's own gate."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.client import Run
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.manifests import Consumption, PairedBatches, publish_manifests
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import start_run


@dataclass(frozen=True)
class Problem:
    id: str


PROBLEMS = [Problem(f"p{number}") for number in range(40)]


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return start_run(served, features=("warmup_adaptation",))


def consumed(batches: PairedBatches[Problem], *, warm_up: bool) -> Consumption[Problem]:
    """As a training loop would."""
    record = batches.consumption()
    for _ in record.warm_up() if warm_up else ():
        pass
    for _ in record.shared():
        pass
    return record


@given(size=st.integers(1, 5), shared=st.integers(0, 5), warm_up=st.integers(0, 3))
def test_r180_batches_are_disjoint_and_the_warm_up_comes_after_the_shared_ones(
    size: int, shared: int, warm_up: int
) -> None:
    batches = PairedBatches.cut(PROBLEMS, size=size, shared=shared, warm_up=warm_up)
    items = [item for batch in (*batches.shared, *batches.warm_up) for item in batch.items]
    assert items == PROBLEMS[: size * (shared + warm_up)]
    assert (len(batches.shared), len(batches.warm_up)) == (shared, warm_up)
    ids = [batch.id for batch in (*batches.shared, *batches.warm_up)]
    assert len(set(ids)) == len(ids)


def test_too_few_items_and_items_twice_are_refused() -> None:
    with pytest.raises(HarnessError, match="11 batches of 4 items take more than the 40"):
        PairedBatches.cut(PROBLEMS, size=4, shared=10, warm_up=1)
    with pytest.raises(HarnessError, match="twice"):
        PairedBatches.cut([PROBLEMS[0], PROBLEMS[0]], size=1, shared=2)


def test_an_id_follows_from_the_items_and_their_order() -> None:
    [forward] = PairedBatches.cut(PROBLEMS[:2], size=2, shared=1).shared
    [backward] = PairedBatches.cut(PROBLEMS[1::-1], size=2, shared=1).shared
    assert forward.id != backward.id


def test_what_the_loop_left_undone_is_not_on_record() -> None:
    record = PairedBatches.cut(PROBLEMS, size=4, shared=3).consumption()
    loop = record.shared()
    first = next(loop)
    assert record.shared_ids == [], "it is in work"
    next(loop)
    assert record.shared_ids == [first.id]


def test_arms_of_a_pair_pass(run: Run) -> None:
    batches = PairedBatches.cut(PROBLEMS, size=4, shared=4, warm_up=2)
    arms = {"one": consumed(batches, warm_up=False), "other": consumed(batches, warm_up=True)}
    assert arms["other"].manifest("other", "seed0")["warmup_batches"] == 2
    gate = publish_manifests(run, "seed0", arms)
    assert gate.status == "passed", gate.problems
    assert not [flag for flag in run.judgment()["flags"] if flag["rule"] == "R-181"]


def test_r182_arms_that_saw_other_batches_fail(run: Run) -> None:
    batches = PairedBatches.cut(PROBLEMS, size=4, shared=4)
    turned = PairedBatches(batches.shared[::-1], ())
    gate = publish_manifests(
        run, "seed0", {"one": consumed(batches, warm_up=False), "other": consumed(turned, warm_up=False)}
    )
    assert gate.status == "failed"
