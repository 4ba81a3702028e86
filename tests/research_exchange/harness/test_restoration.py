"""Arms started from one adapter, on a real service, read by the Exchange's own gate."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tinker
from tinker.types import AdamParams

from research_exchange.client import Run
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.fixed_state import loss_of
from research_exchange.harness.restoration import Restoration, report_restore, restore_equivalence
from research_exchange.harness.service import adamw_client
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import DATA, RANK, scored, spindle_client, start_run
from tests.servers import MODEL, SpindleServer

CONFIG = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.0}


def plan(**changes: Any) -> dict[str, Any]:
    arms = [{"name": name, "optimizer": "adamw", "optimizer_config": CONFIG} for name in ("one", "other")]
    return {"applicable": True, "fixed_batch_required": True, "groups": [{"arms": arms}], **changes}


@pytest.fixture
def service(spindle: SpindleServer) -> Iterator[tinker.ServiceClient]:
    """One's own, so that the clients of a test are given back."""
    with spindle_client(spindle)() as service:
        yield service


@pytest.fixture
def create(service: tinker.ServiceClient) -> Callable[..., tinker.TrainingClient]:
    """A client with the spec's optimizer, or one that differs."""

    def _create(seed: int = 1, **changes: float) -> tinker.TrainingClient:
        return adamw_client(service, MODEL, rank=RANK, seed=seed, settings={**CONFIG, **changes})

    return _create


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return start_run(served, features=("paired_training_arms",), restoration_preflight=plan())


@pytest.fixture
def start(run: Run, service: tinker.ServiceClient, create: Callable[..., tinker.TrainingClient]) -> Restoration:
    return Restoration.begin(run, service, create(), scored(DATA))


def test_arms_started_alike_pass(run: Run, start: Restoration, create: Callable[..., tinker.TrainingClient]) -> None:
    """Whatever adapter their clients were created with."""
    for arm, seed in (("one", 5), ("other", 6)):
        start.arm(arm, lambda seed=seed: create(seed))  # type: ignore[misc]  # mypy does not infer a bound default.
    assert not run.gate("restoration_preflight").may_go_on, "nothing was reported yet"
    gate = start.publish()
    assert gate.status == "passed", gate.problems

    [computed] = [gate["computed"] for gate in run.judgment()["gates"] if gate["gate"] == "restoration_preflight"]
    assert computed["groups[0].checkpoint_uri"] == start.checkpoint
    assert computed["groups[0].adapter_sha256"] == start.adapter_sha256


def test_the_hashed_bytes_are_the_evidence(
    run: Run, start: Restoration, create: Callable[..., tinker.TrainingClient]
) -> None:
    """So that the Exchange hashes them itself, and an output that two arms share is one file."""
    for arm in ("one", "other"):
        start.arm(arm, create)
    start.publish()
    [gate] = [gate for gate in run.judgment()["gates"] if gate["gate"] == "restoration_preflight"]
    assert gate["provenance"]["groups[0].output_sha256"] == "recomputed"
    names = [file["name"] for file in run.record()["evidence"]]
    assert len([name for name in names if name.startswith("initial-output-")]) == 1
    assert len([name for name in names if name.startswith("fixed-batch-")]) == 1


def test_r098_another_optimizer_fails(start: Restoration, create: Callable[..., tinker.TrainingClient]) -> None:
    start.arm("one", create)
    start.arm("other", lambda: create(eps=1e-12))
    gate = start.publish()
    assert gate.status == "failed"
    assert "eps" in gate.problems[0]


def test_r098_a_service_that_does_not_tell_leaves_it_unverified(
    service: tinker.ServiceClient, start: Restoration
) -> None:
    """A setting that was not fixed at the creation is not echoed."""
    for arm in ("one", "other"):
        start.arm(arm, lambda: service.create_lora_training_client(MODEL, rank=RANK).result())
    assert start.publish().status == "unverified"


def test_r095_arms_that_start_apart_fail(
    run: Run, service: tinker.ServiceClient, start: Restoration, create: Callable[..., tinker.TrainingClient]
) -> None:
    start.arm("one", create)
    elsewhere = Restoration.begin(run, service, create(seed=9), scored(DATA))
    elsewhere.arm("other", create)
    entries = [part.report()["arms"][0] for part in (start, elsewhere)]
    run.update(initialization_provenance={"version": 1, "arms": entries})
    gate = run.gate("restoration_preflight")
    assert gate.status == "failed"
    assert any("R-095" in problem for problem in gate.problems)


def test_a_start_that_was_trained_is_refused(
    run: Run, service: tinker.ServiceClient, create: Callable[..., tinker.TrainingClient]
) -> None:
    used = create()
    used.forward_backward(DATA, "importance_sampling")
    used.optim_step(AdamParams(learning_rate=1e-2, eps=1e-8)).result()
    with pytest.raises(HarnessError, match="counts 1 optimizer steps of the shared start"):
        Restoration.begin(run, service, used, scored(DATA))


def test_an_arm_may_be_started_again_and_shows_the_same(
    start: Restoration, create: Callable[..., tinker.TrainingClient]
) -> None:
    start.arm("one", create)
    start.arm("one", create)
    assert len(start.report()["arms"]) == 1
    with pytest.raises(HarnessError, match="started twice"):
        start.arm("one", lambda: create(eps=1e-12))


def test_r096_a_load_that_brings_nothing_back_did_not_succeed(
    run: Run, service: tinker.ServiceClient, create: Callable[..., tinker.TrainingClient]
) -> None:
    """As when the saved adapter is another one than was hashed: B is 0, so every output would be equal."""
    start = Restoration.begin(run, service, create(seed=1), scored(DATA))
    start.adapter_sha256 = Restoration.begin(run, service, create(seed=2), scored(DATA)).adapter_sha256
    for arm in ("one", "other"):
        start.arm(arm, create)
    gate = start.publish()
    assert gate.status == "failed"
    assert any("load_succeeded" in problem for problem in gate.problems)


def test_r09e_a_restored_client_goes_on_as_the_other(
    served: ServedExchange, service: tinker.ServiceClient, create: Callable[..., tinker.TrainingClient]
) -> None:
    run = start_run(
        served,
        features=("checkpoint_restore", "paired_training_arms"),
        restoration_preflight=plan(restore_equivalence={"atol": 1e-7, "rtol": 1e-6, "min_cosine": 0.999999}),
    )
    start = Restoration.begin(run, service, create(), scored(DATA))
    for arm in ("one", "other"):
        start.arm(arm, create)
    assert start.publish().status == "unverified"
    start.equivalence = restore_equivalence(
        service,
        create(),
        lambda client: loss_of(client.forward_backward(DATA, "importance_sampling").result()),
        AdamParams(learning_rate=1e-2, eps=1e-8),
    )
    assert start.equivalence["reference_max_abs"] > 1e-3
    gate = start.publish()
    assert gate.status == "passed", gate.problems


def test_what_the_server_said_is_kept_word_for_word(
    run: Run, start: Restoration, create: Callable[..., tinker.TrainingClient]
) -> None:
    start.arm("one", create)
    [entry] = start.report()["arms"]
    names = {file["name"] for file in run.record()["evidence"]}
    assert entry["initialization"]["evidence_ref"] in names
    assert entry["optimizer_checks"][0]["actual_config"]["eps"] == CONFIG["eps"]
    assert json.dumps(entry)


def test_r097_each_restore_is_added_to_what_was_reported_of_the_start(
    run: Run, start: Restoration, service: tinker.ServiceClient, create: Callable[..., tinker.TrainingClient]
) -> None:
    learners = {arm: start.arm(arm, create) for arm in ("one", "other")}
    assert start.publish().may_go_on
    saved = learners["one"].save_state("on-the-way").result().path
    restored = service.create_training_client_from_state_with_optimizer(saved).result()
    assert report_restore(run, service, restored, arm="one").status == "passed"
    report = next(run.reported("initialization_provenance"))
    counts = {entry["arm"]: entry["restore_count"] for entry in report["arms"]}
    assert counts == {"one": 2, "other": 1}
    [one] = [entry for entry in report["arms"] if entry["arm"] == "one"]
    assert [check["after_restore"] for check in one["optimizer_checks"]] == [0, 1, 2]

    fallen_back = service.create_training_client_from_state(saved).result()
    reading = report_restore(run, service, fallen_back, arm="one")
    assert not reading.may_go_on, "another optimizer came back"


def test_a_restore_of_what_never_started_is_refused(
    run: Run, service: tinker.ServiceClient, create: Callable[..., tinker.TrainingClient]
) -> None:
    with pytest.raises(HarnessError, match="The start of the arm 'one' is not on record"):
        report_restore(run, service, create(), arm="one")
