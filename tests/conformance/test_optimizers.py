"""Optimizers and losses beyond the stock ones, chosen with the stock SDK: built in, and from a plugin file."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tinker
from tinker import types
from tinker.types.optimizer import OptimizerConfigBase, OptimParamsBase

from tests.conformance.data import supervised
from tests.servers import MODEL, SpindleServer

PLUGIN = Path(__file__).parents[1] / "spindle/backends/example_plugin.py"


@pytest.fixture(scope="module")
def with_plugin(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    folder = tmp_path_factory.mktemp("plugin")
    server = SpindleServer(model_directory, folder / "data", options=("--plugin", str(PLUGIN))).start()
    yield server
    server.stop()


def _config(client: tinker.TrainingClient) -> dict[str, Any]:
    config: dict[str, Any] = client.get_info().optimizer_config.model_dump()
    return config


def _metrics(client: tinker.TrainingClient, params: Any) -> dict[str, float]:
    metrics = client.optim_step(params).result(60).metrics
    assert metrics is not None
    return metrics


def test_muon_is_chosen_stepped_and_restored(service: tinker.ServiceClient) -> None:
    muon = OptimizerConfigBase(type="muon", scale="moonlight", momentum=0.9)  # type: ignore[call-arg]
    client = service.create_lora_training_client(base_model=MODEL, rank=4, seed=1, optimizer=muon).result(60)
    told = _config(client)
    assert (told["type"], told["scale"], told["momentum"], told["nesterov"]) == ("muon", "moonlight", 0.9, 1.0)
    client.forward_backward([supervised()], "cross_entropy").result(60)
    applied = _metrics(client, types.AdamParams(learning_rate=0.02, weight_decay=0.1))
    assert (applied["learning_rate"], applied["weight_decay"], applied["momentum"]) == (0.02, 0.1, 0.9)
    assert applied["grad_norm"] > 0
    own = OptimParamsBase(type="muon", learning_rate=0.01)  # type: ignore[call-arg]
    assert _metrics(client, own)["learning_rate"] == 0.01
    with pytest.raises(tinker.RequestFailedError, match="created with the optimizer 'muon', but"):
        client.optim_step(OptimParamsBase(type="lora_muon")).result(60)
    path = client.save_state("with-muon").result(60).path
    restored = service.create_training_client_from_state_with_optimizer(path).result(60)
    assert _config(restored) == told | {"step": 2}
    assert _metrics(restored, own)["optimizer_step"] == 3


def test_a_plugin_is_told_with_its_hash_and_used_by_name(with_plugin: SpindleServer) -> None:
    sha256 = hashlib.sha256(PLUGIN.read_bytes()).hexdigest()
    assert sha256 in with_plugin.log
    service = tinker.ServiceClient(base_url=with_plugin.url, api_key=with_plugin.key)
    wanted = OptimizerConfigBase(type="example_sign", memory=0.5, plugin_sha256=sha256)  # type: ignore[call-arg]
    client = service.create_lora_training_client(base_model=MODEL, rank=4, optimizer=wanted).result(60)
    assert _config(client)["plugin_sha256"] == sha256
    data = [supervised()]
    losses = []
    for _ in range(4):
        gradient = client.forward_backward(
            data,
            "example_squared",  # type: ignore[arg-type]
            loss_fn_config={"target": -1.0},
        )
        step = client.optim_step(types.AdamParams(learning_rate=3e-3))
        losses.append(gradient.result(60).metrics["loss:sum"])
        assert step.result(60).metrics["steps_seen"] == len(losses)  # type: ignore[index]
    assert losses[-1] < losses[0]
    other = OptimizerConfigBase(type="example_sign", plugin_sha256="0" * 64)  # type: ignore[call-arg]
    with pytest.raises(tinker.BadRequestError, match=sha256):
        service.create_lora_training_client(base_model=MODEL, optimizer=other).result(60)
    service.close("success").result(10)
