"""A service without what all arms need is told of in a sentence, before anything trains."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import tinker
from tinker.types import Datum
from transformers import PreTrainedTokenizerFast

from experiments.score_centering.centering import preflights
from experiments.score_centering.centering.losses import sampled_column
from experiments.score_centering.centering.plan import Plan
from experiments.score_centering.centering.suitability import must_suit
from research_exchange.harness import HarnessError, service_client, task_named
from tests.experiments.evidence import files
from tests.experiments.score_centering.test_run import small_spec
from tests.research_exchange.runner.running import Rx
from tests.sdk import collected
from tests.servers import MODEL, SpindleServer

__all__ = ["collected"]

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""The SDK leaves the sockets of its first request to the garbage collector."""

SPEC = json.loads(preflights.REFERENCE.with_name("laptop.spec.json").read_text())
PLAN = replace(Plan.of_spec(SPEC), base_model=MODEL, lora_rank=2, top_k=16)
TASK = task_named("arithmetic", evaluation=4)


@pytest.fixture(scope="module")
def service(spindle: SpindleServer) -> Iterator[tinker.ServiceClient]:
    with service_client(base_url=spindle.url, api_key=spindle.key) as service:
        yield service


@pytest.fixture(scope="module")
def tokenizer(spindle: SpindleServer) -> Any:
    """From the folder: where the hub's cache is, this process decided when it first imported the library."""
    return PreTrainedTokenizerFast.from_pretrained(spindle.model)


@dataclass
class Lesser:
    """A service that has less than the one behind it, by what it makes of its clients."""

    behind: Any
    top: int | None = None
    """It returns no more likeliest tokens than these."""
    takes_columns: bool = True
    """Whether it takes several targets a position; else it looks at the first alone."""

    def result(self) -> "Lesser":
        return self

    def create_sampling_client(self, **named: Any) -> "Lesser":
        return replace(self, behind=self.behind.create_sampling_client(**named).result())

    def create_lora_training_client(self, *given: Any, **named: Any) -> "Lesser":
        return replace(self, behind=self.behind.create_lora_training_client(*given, **named).result())

    def sample(self, *given: Any, topk_sample_logprobs: int = 0, **named: Any) -> Any:
        most = topk_sample_logprobs if self.top is None else self.top
        return self.behind.sample(*given, topk_sample_logprobs=most, **named)

    def forward_backward_custom(self, data: list[Datum], loss: Any) -> Any:
        if self.takes_columns:
            return self.behind.forward_backward_custom(data, loss)
        return self.behind.forward_backward_custom(sampled_column(data), lambda _, found: loss(data, found))


def test_a_service_that_has_everything_suits(service: tinker.ServiceClient, tokenizer: Any) -> None:
    must_suit(service, tokenizer, TASK, PLAN)
    must_suit(service, tokenizer, TASK, replace(PLAN, top_k=1))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"top": 0}, "The service returned no likeliest tokens beside those that it sampled"),
        ({"top": 5}, "returned 5 likeliest tokens of a generated position, and top_k asks for 16"),
        ({"takes_columns": False}, r"targets of the shape \[\d+, 17\] with log-probabilities of the shape \[\d+\]"),
    ],
)
def test_what_is_missing_is_named(
    service: tinker.ServiceClient, tokenizer: Any, changed: dict[str, Any], sentence: str
) -> None:
    lesser: Any = Lesser(service, **changed)
    with pytest.raises(HarnessError, match=sentence):
        must_suit(lesser, tokenizer, TASK, PLAN)


def test_a_run_ends_with_the_refusal_before_anything_trains(rx: Rx, problems: Path, tmp_path: Path) -> None:
    spec = small_spec(tmp_path / "score_centering", problems)
    document = json.loads(spec.read_text())
    document["command"] = f"python rl_score_centering.py --gsm8k {problems} --top-k 1000000000"
    spec.write_text(json.dumps(document))
    done = rx("run", str(spec), "--data", str(tmp_path / "data"), "--json")
    record = json.loads(done.stdout)
    state = record["state"]
    assert (state["status"], state["outcome_reason"]) == ("failed", "incomplete_execution"), done.stderr
    assert "does not return the 1000000000 likeliest tokens of generated positions" in state["summary"]
    assert "topk_sample_logprobs" in state["summary"]
    assert set(state["completed_arms"]) <= {"base"}
    assert "preflight-probe.jsonl" in files(tmp_path / "data", record)
