"""Score centering in double precision: the loss is the definition, and what follows from the definition holds.

The definition is dense: a gradient through softmax logits over a whole small vocabulary. The losses see the head alone.
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from tinker.types import Datum, SampledSequence, TensorData
from tinker.types.topk_logprobs import TopkLogprobs

from experiments.score_centering import reference
from experiments.score_centering.centering.losses import (
    EMPTY,
    Kind,
    Objective,
    Weight,
    coefficients,
    head_datum,
    sampled_column,
    sampled_weight,
)
from research_exchange.harness import HarnessError

V = 6
WEIGHTS = list(Weight)
CENTERED = [Objective(Kind.SCORE_CENTERING, weight) for weight in WEIGHTS]


def logits(seed: int, spread: float = 1.5) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(scale=spread, size=V))


LEARNER = logits(1)
SAMPLER = logits(2).log_softmax(0).float().double()
"""log q, as exact as it can be sent: it adds up to 1 within the rounding of float32."""
ROUNDING = 1e-6


def datum(log_q: torch.Tensor, tokens: Sequence[int], advantages: Sequence[float], k: int) -> Datum:
    """One position for each token, all after the same prefix; the head is the sampler's k likeliest tokens."""
    log_head, head = log_q.topk(k)
    targets = torch.tensor([[token, *head.tolist()] for token in tokens])
    return Datum(
        model_input={"chunks": [{"type": "encoded_text", "tokens": list(tokens)}]},  # type: ignore[arg-type]
        loss_fn_inputs={
            "target_tokens": TensorData.from_torch(targets),
            "logprobs": TensorData.from_torch(log_q[list(tokens)]),
            "advantages": TensorData.from_torch(torch.tensor(advantages, dtype=torch.float64)),
            "head_logprobs": TensorData.from_torch(log_head.repeat(len(tokens), 1)),
        },
    )


def value(objective: Objective, given: Datum, learner: torch.Tensor) -> torch.Tensor:
    """The loss of a learner with these logits at every position."""
    targets = given.loss_fn_inputs["target_tokens"].to_torch()
    return objective([given], [learner.log_softmax(0)[targets]])[0]


def gradient(objective: Objective, given: Datum, learner: torch.Tensor) -> torch.Tensor:
    """By the logits."""
    leaf = learner.clone().requires_grad_()
    return torch.autograd.grad(value(objective, given, leaf), leaf)[0]


def scores(learner: torch.Tensor) -> torch.Tensor:
    """[V, V]: row v is d log p_v by the logits."""
    return torch.eye(V, dtype=torch.float64) - learner.softmax(0)


def centered_score(weight: Weight, q: torch.Tensor, learner: torch.Tensor) -> torch.Tensor:
    """[V, V]: f(r_y) s_y − Σ_v q_v f(r_v) s_v for every y, by definition."""
    weighted = sampled_weight(weight, learner.softmax(0) / q)[:, None] * scores(learner)
    return weighted - q @ weighted


def test_1_the_stock_arm_is_importance_sampling_in_loss_and_derivative() -> None:
    tokens, advantages = [0, 3, 3, 5], [0.625, -0.25, 0.0, 1.0]
    given = datum(SAMPLER, tokens, advantages, k=2)
    log_p = LEARNER.log_softmax(0)[given.loss_fn_inputs["target_tokens"].to_torch()].requires_grad_()
    loss, _ = Objective(Kind.IMPORTANCE_SAMPLING)([given], [log_p])
    [derivative] = torch.autograd.grad(loss, log_p)
    ratio = (log_p[:, 0].detach() - SAMPLER[tokens]).exp()
    wanted = -torch.tensor(advantages, dtype=torch.float64) * ratio
    assert loss.item() == pytest.approx(wanted.sum().item(), rel=1e-12)
    assert derivative[:, 0].tolist() == pytest.approx(wanted.tolist(), rel=1e-12)
    assert not derivative[:, 1:].any(), "the head carries nothing"


@pytest.mark.parametrize("objective", CENTERED, ids=WEIGHTS)
def test_2_the_gradient_is_the_centered_weighted_score(objective: Objective) -> None:
    """From the whole vocabulary, once for every token that may have been sampled."""
    wanted = centered_score(objective.weight, SAMPLER.exp(), LEARNER)
    for token in range(V):
        found = gradient(objective, datum(SAMPLER, [token], [0.75], k=V), LEARNER)
        assert found.tolist() == pytest.approx((-0.75 * wanted[token]).tolist(), abs=1e-12)


@pytest.mark.parametrize("objective", CENTERED, ids=WEIGHTS)
def test_3_what_is_expected_is_the_covariance_and_nothing_for_a_constant_advantage(objective: Objective) -> None:
    q, worth = SAMPLER.exp(), torch.tensor([1.0, -0.5, 0.25, 0.0, 0.875, -1.25], dtype=torch.float64)

    def expected(advantages: torch.Tensor) -> torch.Tensor:
        each = [gradient(objective, datum(SAMPLER, [y], [advantages[y].item()], k=V), LEARNER) for y in range(V)]
        return q @ torch.stack(each)

    weighted = sampled_weight(objective.weight, LEARNER.softmax(0) / q)[:, None] * scores(LEARNER)
    covariance = (q * worth) @ weighted - (q @ worth) * (q @ weighted)
    assert expected(worth).tolist() == pytest.approx((-covariance).tolist(), abs=ROUNDING)
    assert expected(torch.ones(V)).tolist() == pytest.approx([0.0] * V, abs=ROUNDING)


@pytest.mark.parametrize("k", range(1, V + 1))
def test_4_without_a_mismatch_and_with_the_bare_ratio_there_is_no_correction(k: int) -> None:
    log_p, (_, head) = LEARNER.log_softmax(0), LEARNER.topk(k)
    same = log_p[head].exp()[None]
    for weight in WEIGHTS:
        assert coefficients(weight, same, same).abs().max() < 1e-12
    given = datum(log_p, [2], [0.75], k)
    plain = gradient(Objective(Kind.POLICY_GRADIENT), given, LEARNER)
    for objective in CENTERED:
        assert gradient(objective, given, LEARNER).tolist() == pytest.approx(plain.tolist(), abs=ROUNDING)

    given = datum(SAMPLER, [2], [0.75], k)
    ratio = gradient(Objective(Kind.IMPORTANCE_SAMPLING), given, LEARNER)
    identity = Objective(Kind.SCORE_CENTERING, Weight.IDENTITY)
    assert gradient(identity, given, LEARNER).tolist() == pytest.approx(ratio.tolist(), abs=1e-12)
    head_q, head_p = SAMPLER.topk(k)[0].exp(), log_p[SAMPLER.topk(k)[1]].exp()
    assert reference.coefficients(head_q.tolist(), head_p.tolist(), "identity") == pytest.approx([0.0] * k, abs=1e-12)


@pytest.mark.parametrize(("k", "objective"), list(product(range(1, V), CENTERED)))
def test_5_the_head_stands_for_the_sampler_with_a_tail_like_the_learners(k: int, objective: Objective) -> None:
    log_p, (log_head, head) = LEARNER.log_softmax(0), SAMPLER.topk(k)
    outside = torch.ones(V, dtype=torch.bool)
    outside[head] = False
    modelled = log_p.exp() * (1 - log_head.exp().sum()) / log_p[outside].exp().sum()
    modelled[head] = log_head.exp()
    token = int(head[0])
    wanted = -0.75 * centered_score(objective.weight, modelled, LEARNER)[token]
    found = gradient(objective, datum(SAMPLER, [token], [0.75], k), LEARNER)
    assert found.tolist() == pytest.approx(wanted.tolist(), abs=1e-12)


def test_5_with_the_whole_vocabulary_the_correction_is_the_difference() -> None:
    q, p = SAMPLER.exp()[None], LEARNER.softmax(0)[None]
    assert coefficients(Weight.NONE, q, p).tolist()[0] == pytest.approx((q - p)[0].tolist(), abs=1e-12)


def test_6_a_token_outside_the_head_has_its_own_ratio() -> None:
    token = int(SAMPLER.argmin())
    for objective in CENTERED:
        given = datum(SAMPLER, [token], [1.0], k=2)
        log_p = LEARNER.log_softmax(0)[given.loss_fn_inputs["target_tokens"].to_torch()].requires_grad_()
        [found] = torch.autograd.grad(objective([given], [log_p])[0], log_p)
        ratio = (log_p[:, 0] - SAMPLER[token]).detach().exp()
        assert found[0, 0].item() == pytest.approx(-sampled_weight(objective.weight, ratio).item(), rel=1e-12)


def test_6_a_probability_that_underflows_and_a_tail_that_rounds_below_nothing() -> None:
    q, p = torch.tensor([[0.9, 0.0]], dtype=torch.float64), torch.tensor([[0.5, 0.3]], dtype=torch.float64)
    for weight in WEIGHTS:
        found = coefficients(weight, q, p)
        assert found.isfinite().all()
        assert found[0].tolist() == pytest.approx(reference.coefficients(q[0].tolist(), p[0].tolist(), weight))
    full = torch.tensor([[0.6, 0.4 + 1e-9]], dtype=torch.float64)
    assert coefficients(Weight.NONE, full, full).abs().max() < 1e-12, "both tails are at the floor, so rho is 1"
    lost = coefficients(Weight.NONE, full, p)
    assert lost[0].tolist() == pytest.approx((full - 1e-6 / 0.2 * p)[0].tolist(), rel=1e-9)


@pytest.mark.parametrize("objective", CENTERED, ids=WEIGHTS)
@pytest.mark.parametrize("k", [1, 3, V])
def test_7_weights_and_coefficients_are_held_constant_as_the_reference_has_them(objective: Objective, k: int) -> None:
    tokens, advantages = [1, 4, 0], [0.625, -1.25, 0.0]
    given = datum(SAMPLER, tokens, advantages, k)
    log_p = LEARNER.log_softmax(0)[given.loss_fn_inputs["target_tokens"].to_torch()].requires_grad_()
    loss, _ = objective([given], [log_p])
    [found] = torch.autograd.grad(loss, log_p)
    arguments = [log_p.tolist()], *([given.loss_fn_inputs[n].to_torch().tolist()] for n in NAMES)
    wanted = reference.loss_and_derivative(*arguments, weight=objective.weight)
    assert loss.item() == pytest.approx(wanted.loss, abs=1e-12), "the value includes the correction (check 9)"
    assert found.numpy() == pytest.approx(np.array(wanted.derivative[0]), abs=1e-12)
    c = reference.coefficients(SAMPLER.topk(k)[0].exp().tolist(), log_p[0, 1:].exp().tolist(), objective.weight)
    assert found[0, 1:].tolist() == pytest.approx([0.625 * each for each in c], abs=1e-12)


NAMES = ("logprobs", "head_logprobs", "advantages")


def test_7_the_plain_arm_is_the_reference_without_ratio_and_correction() -> None:
    given = datum(SAMPLER, [1, 4], [0.625, -1.25], k=3)
    log_p = LEARNER.log_softmax(0)[given.loss_fn_inputs["target_tokens"].to_torch()].requires_grad_()
    loss, _ = Objective(Kind.POLICY_GRADIENT)([given], [log_p])
    [found] = torch.autograd.grad(loss, log_p)
    arguments = [log_p.tolist()], *([given.loss_fn_inputs[n].to_torch().tolist()] for n in NAMES)
    wanted = reference.loss_and_derivative(*arguments, centered=False)
    assert loss.item() == pytest.approx(wanted.loss, rel=1e-12)
    assert found.numpy() == pytest.approx(np.array(wanted.derivative[0]), abs=1e-12)


def answer(
    *, head: Sequence[Sequence[float]] | None = None, ids: Sequence[Sequence[int]] | None = None
) -> SampledSequence:
    """Two tokens with a head of three places; the last place of the second is empty."""
    top = TopkLogprobs(
        np.array(ids or [[8, 7, 3], [8, 2, 0]], dtype=np.int32),
        np.array(head or [[-0.5, -1.0, -2.5], [-0.2, -3.0, EMPTY]], dtype=np.float32),
    )
    drawn = np.array([-1.0, -0.2], dtype=np.float32)
    return SampledSequence("stop", "s0", np.array([7, 8], dtype=np.int32), drawn, top)


VOCABULARY = 9
"""Tokens of the tokenizer that these answers are of."""


def sequence(prompt: Sequence[int], advantage: float, given: SampledSequence | None = None) -> Datum:
    return head_datum(prompt, given or answer(), advantage, vocabulary=VOCABULARY)


def test_8_prompts_and_empty_places_carry_nothing_and_packed_is_unpacked() -> None:
    data = [sequence([1, 2, 3], 0.5), sequence([4, 5], -0.5), sequence([4, 5], 0)]
    [targets, *_] = (each.loss_fn_inputs["target_tokens"].to_numpy().tolist() for each in data)
    assert targets == [[2, 2, 2, 2], [3, 3, 3, 3], [7, 8, 7, 3], [8, 8, 2, 8]]
    draw = np.random.default_rng(0)
    learned = [
        torch.tensor(draw.uniform(-3, -1.5, each.loss_fn_inputs["target_tokens"].shape or []), requires_grad=True)
        for each in data
    ]
    for objective in (*CENTERED, Objective(Kind.IMPORTANCE_SAMPLING), Objective(Kind.POLICY_GRADIENT)):
        loss, _ = objective(data, learned)
        packed = torch.autograd.grad(loss, learned)
        assert not packed[0][:2].any()
        assert not packed[0][3, 3].any(), "a place without a token"
        assert not packed[2].any(), "an answer that is worth nothing"
        alone = [objective([each], [its])[0] for each, its in zip(data, learned, strict=True)]
        assert loss.item() == pytest.approx(sum(each.item() for each in alone), rel=1e-12)
        for one, found, its in zip(alone, packed, learned, strict=True):
            assert torch.equal(torch.autograd.grad(one, its)[0], found)


def test_8_the_stock_loss_gets_the_sampled_tokens_alone() -> None:
    [column] = sampled_column([sequence([1, 2, 3], 0.5)])
    inputs = {name: values.to_numpy().tolist() for name, values in column.loss_fn_inputs.items()}
    assert inputs == {
        "target_tokens": [2, 3, 7, 8],
        "logprobs": pytest.approx([0, 0, -1.0, -0.2]),
        "advantages": [0, 0, 0.5, 0.5],
    }


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (answer(ids=[[8, 7, 7], [8, 2, 0]]), "names a token twice, at position 0"),
        (answer(head=[[-0.5, -1.2, -2.5], [-0.2, -3.0, EMPTY]]), "as the one it drew and -1.2"),
        (SampledSequence("stop", "s0", np.array([7, 8]), np.array([-1.0, -0.2])), "no likeliest tokens beside"),
    ],
)
def test_8_a_head_that_contradicts_its_token_is_refused(changed: SampledSequence, sentence: str) -> None:
    with pytest.raises(HarnessError, match=sentence):
        sequence([1, 2, 3], 1.0, changed)


def test_8_ids_that_pad_the_models_output_are_no_tokens() -> None:
    """One in the head is a place without a token; one that was drawn cannot be learned from."""
    padded = sequence([1, 2], 0.5, answer(ids=[[8, 7, VOCABULARY], [8, 2, 0]])).loss_fn_inputs
    assert padded["target_tokens"].to_numpy()[1:].tolist() == [[7, 8, 7, 7], [8, 8, 2, 8]]
    assert padded["head_logprobs"].to_numpy()[1].tolist() == pytest.approx([-0.5, -1.0, EMPTY])
    with pytest.raises(HarnessError, match="sampled the id 8, and the tokenizer's last one is 7"):
        head_datum([1, 2], answer(), 0.5, vocabulary=VOCABULARY - 1)


def test_9_the_convention_of_the_losses_value_is_fixed() -> None:
    """−A ( f log p_y − Σ c log p ), correction included: by hand for one token and a head of one."""
    log_q, log_p = math.log(0.5), math.log(0.25)
    c = 0.5 - 0.5 / 0.75 * 0.25
    found = reference.loss_and_derivative([[[log_p, log_p]]], [[log_q]], [[[log_q]]], [[2.0]])
    assert found.loss == pytest.approx(-2.0 * (log_p - c * log_p), rel=1e-12)
    assert found.derivative == [[[-2.0, pytest.approx(2.0 * c)]]]


def test_10_what_shows_that_the_treatment_is_at_work() -> None:
    given = datum(SAMPLER, [0, 3], [1.0, -1.0], k=3)
    targets = given.loss_fn_inputs["target_tokens"].to_torch()
    log_p = LEARNER.log_softmax(0)
    _, seen = Objective(Kind.SCORE_CENTERING, Weight.TIS)([given], [log_p[targets]])
    gaps = (log_p - SAMPLER)[[0, 3]]
    q, p = SAMPLER.topk(3)[0].exp(), log_p[SAMPLER.topk(3)[1]].exp()
    assert seen == {
        "trained_tokens": 2,
        "logprob_gap": pytest.approx(gaps.abs().mean().item()),
        "largest_logprob_gap": pytest.approx(gaps.abs().max().item()),
        "head_mass_sampler": pytest.approx(q.sum().item()),
        "head_mass_learner": pytest.approx(p.sum().item()),
        "sum_abs_c": pytest.approx(sum(map(abs, reference.coefficients(q.tolist(), p.tolist(), "tis")))),
        "truncated": pytest.approx((gaps.exp() > 2).double().mean().item()),
    }
    assert Objective(Kind.SCORE_CENTERING)([datum(SAMPLER, [0], [0.0], k=3)], [log_p[targets[:1]]])[1] == {}


def test_an_unknown_weight_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no weight 'ppo'; name one of none, identity, tis, mis"):
        reference.ratio_weight("ppo", 1.0)
