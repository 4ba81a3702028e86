"""Which served model stands in for one that is not served."""

import pytest
import tinker

from research_exchange.harness.errors import HarnessError
from research_exchange.harness.models import ServedModel, closest_model, served_model
from tests.servers import MODEL

SERVED = [
    "Qwen/Qwen3.5-2B",
    "Qwen/Qwen3.5-9B",
    "Qwen/Qwen3.5-9B-Base",
    "Qwen/Qwen3-0.6B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B-Instruct",
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "HuggingFaceTB/SmolLM2-1.7B-Instruct",
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("Qwen/Qwen3.5-9B", "Qwen/Qwen3.5-9B"),
        ("Qwen/Qwen3.5-0.8B", "Qwen/Qwen3.5-2B"),
        ("Qwen/Qwen3.5-4B", "Qwen/Qwen3.5-2B"),
        ("Qwen/Qwen3.5-5B", "Qwen/Qwen3.5-9B"),
        ("Qwen/Qwen3.5-0.8B-Base", "Qwen/Qwen3.5-9B-Base"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"),
        ("unsloth/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"),
        ("HuggingFaceTB/SmolLM2-360M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ],
)
def test_r081_the_closest_of_the_family(wanted: str, found: str) -> None:
    assert closest_model(wanted, SERVED) == found


@pytest.mark.parametrize("wanted", ["Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.3", "Qwen/Qwen3.5-MoE"])
def test_r081_another_family_is_no_substitute(wanted: str) -> None:
    with pytest.raises(HarnessError, match="no model of the family"):
        closest_model(wanted, SERVED)


def test_r075_a_substitution_is_a_deviation_and_the_model_itself_is_none() -> None:
    [deviation] = ServedModel("Qwen/Qwen3.5-0.8B", "Qwen/Qwen3.5-2B").deviations
    assert deviation == {
        "field": "model",
        "original": "Qwen/Qwen3.5-0.8B",
        "effective": "Qwen/Qwen3.5-2B",
        "reason": "The service does not serve Qwen/Qwen3.5-0.8B; this is the closest served model of its family.",
    }
    assert ServedModel("m", "m").deviations == []


def test_a_real_service_is_asked(service: tinker.ServiceClient) -> None:
    assert served_model(service, MODEL).name == MODEL
    with pytest.raises(HarnessError, match=MODEL):
        served_model(service, "Qwen/Qwen3.5-0.8B")
