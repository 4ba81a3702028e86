"""Whole gradients and updates, by the difference of two downloads."""

from functools import partial

import numpy as np
import pytest
import tinker
from tinker.types import AdamParams
from tinker.types.optimizer import OptimizerConfigBase, OptimParamsBase

from research_exchange.correctness import parity_errors
from research_exchange.harness.adapters import Adapter, download_adapter
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.fixed_state import FixedState, loss_of
from tests.research_exchange.harness.preflights import DATA, RANK, importance_sampling, moved, spindle_client
from tests.servers import MODEL, SpindleServer


@pytest.fixture(scope="module")
def state(service: tinker.ServiceClient, spindle: SpindleServer) -> FixedState:
    return FixedState(spindle_client(spindle), moved(service))


def stock(client: tinker.TrainingClient) -> float:
    return loss_of(client.forward_backward(DATA, "importance_sampling").result())


def test_the_gradient_has_the_norm_that_the_service_measures(state: FixedState) -> None:
    found = state.gradient(stock)
    with state.connect() as service:
        client = service.create_training_client_from_state(state.checkpoint).result()
        assert stock(client) == found.loss
        applied = client.optim_step(AdamParams(learning_rate=0.0)).result().metrics or {}
    assert np.linalg.norm(found.values) == pytest.approx(applied["grad_norm"], rel=1e-6)
    assert found.values.size == sum(tensor.size for tensor in state.adapter.tensors.values())


def test_two_ways_to_one_loss_have_one_gradient_and_another_loss_another(state: FixedState) -> None:
    found = state.gradient(stock)
    same = state.gradient(lambda client: loss_of(client.forward_backward_custom(DATA, importance_sampling).result()))
    errors = parity_errors(same.values, found.values)
    assert errors["relative_l2_error"] is not None and errors["relative_l2_error"] < 1e-6
    stronger = partial(importance_sampling, strength=2.0)
    other = state.gradient(lambda client: loss_of(client.forward_backward_custom(DATA, stronger).result()))
    assert (parity_errors(other.values, found.values)["relative_l2_error"] or 0) > 0.1


def test_an_update_is_that_of_the_optimizer(state: FixedState) -> None:
    """The first step of AdamW, bias-corrected: -rate * g / (|g| + eps)."""
    gradient = state.gradient(stock).values
    stepped = state.update(stock, AdamParams(learning_rate=1e-2, eps=1e-3)).values
    wanted = -1e-2 * gradient / (np.abs(gradient) + 1e-3)
    assert parity_errors(stepped, wanted)["max_abs_error"] < 1e-7


def test_a_state_may_have_another_optimizer(state: FixedState) -> None:
    muon = FixedState(state.connect, state.checkpoint, OptimizerConfigBase(type="muon"))
    found = muon.update(stock, OptimParamsBase.model_validate({"type": "muon", "learning_rate": 0.01}))
    assert found.loss == state.gradient(stock).loss
    assert 0 < np.linalg.norm(found.values) < 10


def test_a_downloaded_adapter_is_known_by_its_numbers(service: tinker.ServiceClient) -> None:
    one, again, other = (
        download_adapter(service, service.create_lora_training_client(MODEL, rank=RANK, seed=seed).result())
        for seed in (1, 1, 2)
    )
    assert one.sha256 == again.sha256 != other.sha256
    assert not one.minus(again).any() and one.minus(other).any()
    with pytest.raises(HarnessError, match="different matrices"):
        one.minus(Adapter({}))
