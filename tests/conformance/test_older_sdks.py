"""Scripts for SDK 0.25 and 0.24.1, each in a process of its own; 0.24.1 with protobuf and with JSON bodies."""

from typing import Any

import numpy as np
import pytest
import tinker

from tests.conformance.clients import run
from tests.conformance.data import TEXT
from tests.servers import MODEL, SpindleServer

SDKS = {"0.25.0": ["0.25.0"], "0.24.1": ["0.24.1"], "0.24.1-json": ["0.24.1", "--json"]}
Scenarios = dict[str, Any]


@pytest.fixture(scope="module", params=SDKS)
def sdk(request: pytest.FixtureRequest) -> list[str]:
    """The version, and the arguments of the script."""
    return SDKS[request.param]


@pytest.fixture(scope="module")
def an_external_checkpoint(server: SpindleServer) -> str:
    """A row that older SDKs cannot read: it must not show among theirs."""
    service = tinker.ServiceClient(base_url=server.url, api_key=server.key)
    training = service.create_lora_training_client(base_model=MODEL, rank=4).result(60)
    path = training.save_weights_external("not-for-older-clients").result(60).path
    service.close("success").result(10)
    return str(path)


@pytest.fixture(scope="module")
def scenarios(sdk: list[str], server: SpindleServer, an_external_checkpoint: str) -> Scenarios:
    version, *arguments = sdk
    results: Scenarios = run("older_sdk", *arguments, server=server, clients=[f"tinker-{version}"])
    assert results["sdk"] == version
    return results


def of(scenarios: Scenarios, name: str) -> Any:
    assert not isinstance(scenarios[name], str), scenarios[name]
    return scenarios[name]


def test_training(scenarios: Scenarios) -> None:
    train = of(scenarios, "train")
    assert train["losses"][-1] < 0.95 * train["losses"][0]
    assert train["lengths"] is True
    assert "loss:sum" in train["custom"]
    assert train["drift"] < 1e-4
    assert train["step"]["optimizer_step"] == 7
    assert len(train["tokens"]) == 2
    assert train["lora_rank"] == 4


def test_sampling(scenarios: Scenarios) -> None:
    sample = of(scenarios, "sample")
    assert MODEL in sample["capabilities"]
    assert sample["lengths"] == sample["logprobs"] == [5, 5, 5]
    assert sample["distinct"] == 3
    assert sample["repeats"] is True
    tokens, reason, free = sample["stopped"]
    assert tokens == free[: free.index(free[1]) + 1]
    assert reason == "stop"
    assert len(sample["prompt_logprobs"]) == len(TEXT)
    assert sample["prompt_logprobs"][0] is None
    assert sample["computed"][1:] == pytest.approx(sample["prompt_logprobs"][1:], abs=1e-5)
    assert sample["topk"][0] is None
    assert all(len(row) == 3 and row[0][1] >= row[1][1] >= row[2][1] for row in sample["topk"][1:])


def test_checkpoints(scenarios: Scenarios, sdk: list[str], server: SpindleServer) -> None:
    saved = of(scenarios, "checkpoints")
    assert saved["restored"] == saved["weights_only"] == saved["expected"]
    assert saved["restored_continued"] == saved["continued"] != saved["expected"]
    assert np.allclose(saved["scored"], saved["continued"], atol=1e-4)
    version, *arguments = sdk
    resumed = run("older_sdk", saved["path"], *arguments, server=server, clients=[f"tinker-{version}"])
    assert resumed["resumed"] == saved["continued"]


def test_listing(scenarios: Scenarios) -> None:
    listing = of(scenarios, "listing")
    assert listing["run"] == [True, MODEL, 4, {"by": "older"}]
    assert listing["runs"] == 1
    assert listing["listed"] == {"weights/listed": [True, True], "sampler_weights/listed": [False, False]}
    assert "external" not in listing["types"]
    assert listing["session"] and listing["sessions"] and listing["by_path"]
    assert listing["weights"] == [MODEL, True, 4]
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(listing["archive"])
    assert listing["deleted"] == ["sampler_weights/listed"]


def test_errors(scenarios: Scenarios) -> None:
    raised = of(scenarios, "errors")
    assert raised["loss"][0] == "RequestFailedError"
    assert "nonsense" in raised["loss"][1]
    assert "a/b" in raised["name"][1]
    assert "org/absent" in raised["base"][1]
    assert "There is no checkpoint" in raised["path"][1]
    assert raised["after"][0] > 0
