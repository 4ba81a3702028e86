"""Draws against exact cumulative sums in float64."""

import resource
from typing import Any

import numpy as np
import pytest
import torch

from spindle.backends import choice
from spindle.backends.choice import Uniforms, choose
from spindle.backends.contract import SamplingParams
from spindle.backends.scores import Scores


def _scores(rows: int, vocabulary: int, spread: float = 3.0) -> Scores:
    logits = np.random.default_rng(rows + vocabulary).normal(scale=spread, size=(rows, vocabulary))
    return Scores.of(torch.tensor(logits, dtype=torch.float32))


def _streams(count: int, seed: int = 0) -> list[Uniforms]:
    return [Uniforms(seed, sample) for sample in range(count)]


def _exact(mass: Any, numbers: Any) -> Any:
    """Where float64 cumulative sums of `mass` [n, width] pass `numbers` [n] of their total."""
    sums = np.cumsum(mass, axis=1, dtype=np.float64)
    return np.array([np.searchsorted(row, u * row[-1], side="right") for row, u in zip(sums, numbers, strict=True)])


@pytest.mark.parametrize("vocabulary", [7, 255, 256, 257, 3000])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.5])
def test_a_draw_inverts_the_cumulative_distribution(vocabulary: int, temperature: float) -> None:
    rows = 400
    scores = _scores(rows, vocabulary)
    tokens = choose(scores, [SamplingParams(temperature=temperature)] * rows, _streams(rows))
    numbers = [stream.draw() for stream in _streams(rows)]
    mass = np.exp(scores.logits.double().numpy() / temperature)
    differ = int((tokens.numpy() != _exact(mass, numbers)).sum())
    assert differ <= 1, "rounding may move a number that falls on a border, and no more than that"


def test_numbers_at_the_ends_never_find_a_token_without_mass() -> None:
    mass = torch.zeros(3, 1000)
    mass[:, [300, 511, 700]] = torch.tensor([0.2, 0.5, 0.3])
    ends = torch.tensor([[0.0], [1 - 2.0**-53], [0.2]], dtype=torch.float64)
    assert choice._invert(mass, ends)[:, 0].tolist()[:2] == [300, 700]
    assert choice._invert(mass, ends)[2, 0] in (300, 511)


@pytest.mark.parametrize(("top_k", "top_p"), [(-1, 0.9), (-1, 0.05), (2000, 0.95), (40, 1.0), (0, 0.999)])
def test_a_nucleus_may_be_wider_than_the_first_candidates(top_k: int, top_p: float) -> None:
    """Nearly flat distributions over 6000 tokens, whose nucleus holds up to all of them."""
    rows, vocabulary = 60, 6000
    scores = _scores(rows, vocabulary, spread=0.3)
    params = SamplingParams(top_k=top_k, top_p=top_p)
    tokens = choose(scores, [params] * rows, _streams(rows)).numpy()
    mass = np.exp(scores.logits.double().numpy())
    order = np.argsort(-mass, axis=1, kind="stable")
    likeliest = np.take_along_axis(mass, order, 1)
    if top_k > 0:
        likeliest[:, top_k:] = 0
    likeliest /= likeliest.sum(axis=1, keepdims=True)
    before = np.cumsum(likeliest, axis=1) - likeliest
    likeliest[before >= top_p] = 0
    numbers = [stream.draw() for stream in _streams(rows)]
    expected = np.take_along_axis(order, _exact(likeliest, numbers)[:, None], 1)[:, 0]
    assert int((tokens != expected).sum()) <= 1


def test_rows_choose_alike_whatever_is_beside_them() -> None:
    """Every kind of request in one call, and each alone."""
    kinds = [
        SamplingParams(),
        SamplingParams(temperature=0),
        SamplingParams(temperature=0.5),
        SamplingParams(top_k=3),
        SamplingParams(top_p=0.5),
        SamplingParams(temperature=3.0, top_k=1500, top_p=0.9),
    ] * 4
    scores = _scores(len(kinds), 3000)
    together = choose(scores, kinds, _streams(len(kinds))).tolist()
    for row, params in enumerate(kinds):
        alone = Scores.of(scores.logits[row : row + 1])
        assert choose(alone, [params], [Uniforms(0, row)]).tolist() == [together[row]]


def test_which_of_equals_is_chosen_does_not_depend_on_who_is_beside() -> None:
    """The three likeliest among thousands that are equally likely, beside a row with more candidates than most."""
    logits = torch.tensor(np.random.default_rng(0).integers(0, 4, (1, 5000)), dtype=torch.float32)
    few, many = SamplingParams(top_k=3), SamplingParams(top_k=3000)
    beside = Scores.of(logits.repeat(2, 1))
    for seed in range(5):
        alone = choose(Scores.of(logits), [few], _streams(1, seed))
        assert choose(beside, [few, many], _streams(2, seed))[0] == alone[0]


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_the_lowest_temperatures_are_greedy(top_p: float) -> None:
    scores = _scores(8, 300)
    for temperature in (1e-9, 1e-40, 1e-46, 5e-324):
        params = SamplingParams(temperature=temperature, top_p=top_p)
        assert torch.equal(choose(scores, [params] * 8, _streams(8)), scores.logits.argmax(dim=-1))


def test_many_alternatives_take_little_memory() -> None:
    scores, count = _scores(2, 3000), 1 << 18
    before = _peak()
    found = choice.alternatives(scores, 1.0, Uniforms(0, 0), count)
    assert _peak() - before < 1 << 29
    stream = Uniforms(0, 0)
    numbers = [stream.draw() for _ in range(2 * count)]
    mass = np.repeat(np.exp(scores.logits[1:].double().numpy()), 50, axis=0)
    assert int((found[1, -50:].numpy() != _exact(mass, numbers[-50:])).sum()) <= 1


def _peak() -> int:
    """Most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_logprobs_and_top_are_those_of_a_log_softmax() -> None:
    scores = _scores(5, 3000, spread=8.0)
    expected = torch.log_softmax(scores.logits.double(), dim=-1)
    ids = torch.arange(0, 3000, 7).repeat(5, 1)
    torch.testing.assert_close(scores.logprobs(ids).double(), expected.gather(1, ids), atol=5e-6, rtol=0)
    top = scores.top(9)
    torch.testing.assert_close(top.logprobs.double(), expected.topk(9).values, atol=5e-6, rtol=0)
    assert torch.equal(top.token_ids, expected.topk(9).indices)
