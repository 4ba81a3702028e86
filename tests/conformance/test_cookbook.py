"""tinker-cookbook 0.5.8 and 0.6.1: supervised learning and its resume, reinforcement learning, DPO, weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conformance.clients import run
from tests.servers import SpindleServer

Scenarios = dict[str, Any]


@pytest.fixture(scope="module", params=["0.5.8", "0.6.1"])
def scenarios(
    request: pytest.FixtureRequest,
    server: SpindleServer,
    model_directory: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Scenarios:
    folder = tmp_path_factory.mktemp("cookbook")
    clients = [f"cookbook-{request.param}", "cookbook-imports"]
    results: Scenarios = run("cookbook", str(folder), str(model_directory), server=server, clients=clients)
    assert results["cookbook"] == request.param
    return results


def of(scenarios: Scenarios, name: str) -> Any:
    assert not isinstance(scenarios[name], str), scenarios[name]
    return scenarios[name]


def test_supervised_training_lowers_the_loss_and_resumes_where_it_was(scenarios: Scenarios) -> None:
    supervised = of(scenarios, "train_supervised")
    assert supervised["first"] == ["000002", "000004", "final"]
    assert supervised["last"]["name"] == "final"
    assert "/sampler_weights/" in supervised["last"]["sampler_path"]
    assert sorted(set(supervised["steps"])) == list(range(8))
    nll = supervised["nll"]
    assert nll[-1] < 0.7 * nll[0]
    assert nll[5] < 0.9 * nll[0], "the resumed run started anew"
    assert supervised["test_nll"][-1] < 0.8 * supervised["test_nll"][0]


def test_reinforcement_learning_raises_the_reward(scenarios: Scenarios) -> None:
    reinforced = of(scenarios, "train_reinforced")
    assert np.mean(reinforced["reward"][-3:]) > np.mean(reinforced["reward"][:2]) + 0.3
    assert np.isfinite(reinforced["kl"]).all()
    assert abs(reinforced["kl"][0]) < 0.1, "the sampler and the learner disagree"
    assert reinforced["saved"] == ["000004", "000008", "final"] or reinforced["saved"] == ["000004", "final"]


def test_preferences_are_learnt(scenarios: Scenarios) -> None:
    preference = of(scenarios, "train_preference")
    assert preference["loss"][0] == pytest.approx(np.log(2), abs=1e-3)
    assert min(preference["loss"][-3:]) < 0.6 * preference["loss"][0]
    assert np.mean(preference["accuracy"][-3:]) > 0.8
    assert preference["saved"] == ["000003", "final"]


def test_weights_are_downloaded_decrypted_merged_and_converted(scenarios: Scenarios) -> None:
    """Exact under transformers and under peft: what the client's `forward` said before the weights were saved."""
    weights = of(scenarios, "build_weights")
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(weights["files"])
    assert weights["same"] is True
    assert weights["left"] == [], "the temporary export was not deleted"
    assert weights["head"] is True
    assert weights["moved"] > 0.1, "the training was too weak to show anything"
    assert weights["off"] == {"merged": pytest.approx(0, abs=1e-4), "peft": pytest.approx(0, abs=1e-4)}
