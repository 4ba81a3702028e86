"""The probe before anything trains: what works is told, and what is refused is never replaced."""

import json
from collections.abc import Iterator

import pytest
import tinker
from tinker.types import AdamParams
from tinker.types.optimizer import OptimizerConfigBase

from research_exchange.client import Run
from research_exchange.harness.probe import ProbedArm, probe_arms
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import RANK, spindle_client, start_run
from tests.servers import MODEL, SpindleServer


@pytest.fixture
def service(spindle: SpindleServer) -> Iterator[tinker.ServiceClient]:
    with spindle_client(spindle)() as service:
        yield service


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return start_run(served)


def arm(service: tinker.ServiceClient, family: str, **params: float) -> ProbedArm:
    optimizer = OptimizerConfigBase(type=family)
    return ProbedArm(
        lambda: service.create_lora_training_client(MODEL, rank=RANK, optimizer=optimizer).result(),
        AdamParams(**params),
    )


def test_arms_that_work_say_with_which_optimizer(run: Run, service: tinker.ServiceClient) -> None:
    arms = {"one": arm(service, "adamw", learning_rate=1e-3), "other": arm(service, "muon", learning_rate=1e-2)}
    one, other = probe_arms(run, arms, example=[1, 2, 3])
    assert (one.works, one.optimizer, other.works, other.optimizer) == (True, "adamw", True, "muon")
    assert one.applied is not None and one.applied["learning_rate"] == 1e-3


def test_a_refusal_is_kept_in_the_words_of_the_service(run: Run, service: tinker.ServiceClient) -> None:
    arms = {"one": arm(service, "dimuon"), "other": arm(service, "adamw", learning_rate=-1.0)}
    one, other = probe_arms(run, arms, example=[1, 2, 3])
    assert (one.works, other.works) == (False, False)
    assert "dimuon" in str(one.refusal)
    assert "learning_rate" in str(other.refusal)
    [kept] = [file for file in run.record()["evidence"] if file["kind"] == "probe"]
    assert kept["name"] == "preflight-probe.jsonl"
    assert json.dumps([probe.refusal for probe in (one, other)])


def test_a_resumed_run_probes_anew_and_keeps_both_answers(run: Run, service: tinker.ServiceClient) -> None:
    """An evidence name is for good, and the second answer differs here as it may by a bit anywhere."""
    for rate in (1e-3, 2e-3):
        probe_arms(run, {"one": arm(service, "adamw", learning_rate=rate)}, example=[1, 2, 3])
    kept = {file["name"]: file["sha256"] for file in run.record()["evidence"]}
    assert list(kept) == ["preflight-probe.jsonl", "preflight-probe-2.jsonl"]
    assert len(set(kept.values())) == 2


def test_a_service_that_is_away_is_no_refusal(run: Run) -> None:
    """Its own trouble is raised, so that nobody takes it for an answer."""

    def create() -> tinker.TrainingClient:
        raise tinker.APIConnectionError(message="away", request=None)  # type: ignore[arg-type]  # It has none.

    with pytest.raises(tinker.APIConnectionError):
        probe_arms(run, {"one": ProbedArm(create, AdamParams())}, example=[1, 2, 3])
