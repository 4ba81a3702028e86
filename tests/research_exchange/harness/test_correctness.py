"""The correctness preflight on a real service, read by the Exchange's own gate."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
from numpy.typing import NDArray
from tinker.types import AdamOptimizerConfig, AdamParams

from research_exchange.client import Run
from research_exchange.harness.correctness import (
    CorrectnessPreflight,
    LossPath,
    OptimizerPath,
    ReferenceLoss,
    pinned_module,
    revision_of,
)
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.fixed_state import FixedState
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import DATA, importance_sampling, moved, spindle_client, start_run
from tests.servers import SpindleServer

STRENGTH = 1.5
BASELINE, REFERENCE = "tinker==0.38.0 importance_sampling", "sha256:0123"
TOLERANCE = {"atol": 1e-6, "rtol": 1e-5}
LOSS_PLAN = {
    "id": "stronger",
    "kind": "loss",
    "baseline_revision": BASELINE,
    "reference_revision": REFERENCE,
    "tolerances": {
        "baseline_loss": TOLERANCE,
        "baseline_gradient": {**TOLERANCE, "min_cosine": 0.99999},
        "reference_loss": TOLERANCE,
        "reference_gradient": {**TOLERANCE, "min_cosine": 0.99999},
        "packed_loss": TOLERANCE,
        "packed_gradient": {**TOLERANCE, "min_cosine": 0.99999},
    },
}
OPTIMIZER_PLAN = {
    "id": "wide_eps",
    "kind": "optimizer",
    "baseline_revision": BASELINE,
    "reference_revision": REFERENCE,
    "tolerances": {"baseline_update": TOLERANCE, "reference_update": TOLERANCE},
    "lr_scaling": {"tolerance": 0.001, "learning_rates": [0.01, 0.02]},
}


@pytest.fixture(scope="module")
def state(service: tinker.ServiceClient, spindle: SpindleServer) -> FixedState:
    return FixedState(spindle_client(spindle), moved(service))


def start(served: ServedExchange, plan: dict[str, Any], feature: str = "custom_loss") -> Run:
    return start_run(served, features=(feature,), correctness_preflight={"required": True, "paths": [plan]})


def preflight(run: Run, state: FixedState) -> CorrectnessPreflight:
    return CorrectnessPreflight(
        run,
        state,
        DATA,
        description="three random sequences from a policy that is off",
        implementation="sha256:4567",
        precision="float32",
        normalization="sum over tokens",
    )


def reference(logprobs: Sequence[NDArray[np.float64]], strength: float = STRENGTH) -> ReferenceLoss:
    """-sum A (p/q)^strength and its derivative."""
    terms = [
        -np.exp(strength * (learned - datum.loss_fn_inputs["logprobs"].to_numpy().astype(np.float64)))
        * datum.loss_fn_inputs["advantages"].to_numpy()
        for learned, datum in zip(logprobs, DATA, strict=True)
    ]
    return ReferenceLoss(float(sum(term.sum() for term in terms)), [strength * term for term in terms])


STRONGER = partial(importance_sampling, strength=STRENGTH)
PATH = LossPath(
    id="stronger",
    stock=lambda client, data: client.forward_backward(list(data), "importance_sampling"),
    disabled=lambda client, data: client.forward_backward_custom(list(data), importance_sampling),
    enabled=lambda client, data: client.forward_backward_custom(list(data), STRONGER),
    unpacked=lambda _: lambda client, data: client.forward_backward_custom(list(data), STRONGER),
    reference=reference,
    baseline_revision=BASELINE,
    reference_revision=REFERENCE,
)


def test_a_right_implementation_passes(served: ServedExchange, state: FixedState) -> None:
    run = start(served, LOSS_PLAN)
    check = preflight(run, state)
    errors = check.measure(PATH)
    assert errors["reference_gradient"]["reference_max_abs"] > 0.1
    gate = check.publish()
    assert gate.status == "passed", gate.problems
    flags = {flag["rule"] for flag in run.judgment()["flags"]}
    assert "R-10D" not in flags, "the fixed input is kept"


def test_a_wrong_reference_and_a_wrong_baseline_fail(served: ServedExchange, state: FixedState) -> None:
    """Each where it is wrong."""
    check = preflight(start(served, LOSS_PLAN), state)
    check.measure(replace(PATH, reference=partial(reference, strength=1.4), disabled=PATH.enabled))
    gate = check.publish()
    assert gate.status == "failed"
    for name in ("baseline_loss", "baseline_gradient", "reference_loss", "reference_gradient"):
        assert any(name in problem for problem in gate.problems), name
    assert not any("packed" in problem for problem in gate.problems)


def test_r10a_another_revision_than_the_planned_one_is_unverified(served: ServedExchange, state: FixedState) -> None:
    check = preflight(start(served, {**LOSS_PLAN, "reference_revision": "sha256:other"}), state)
    check.measure(PATH)
    assert check.publish().status == "unverified"


def adamw(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first step: bias correction leaves the gradient over its own size."""
    update: NDArray[np.float64] = -0.01 * gradient / (np.abs(gradient) + 1e-2)
    return update


OPTIMIZER = OptimizerPath(
    id="wide_eps",
    loss=PATH.stock,
    stock=AdamParams(learning_rate=0.01, eps=1e-8),
    disabled=AdamParams(learning_rate=0.01, eps=1e-8),
    enabled=AdamParams(learning_rate=0.01, eps=1e-2),
    reference=adamw,
    family=AdamOptimizerConfig(),
    baseline_revision=BASELINE,
    reference_revision=REFERENCE,
    learning_rates={rate: AdamParams(learning_rate=rate, eps=1e-2) for rate in (0.01, 0.02)},
)


def test_r108_an_optimizer_passes_by_its_updates_and_their_scaling(served: ServedExchange, state: FixedState) -> None:
    check = preflight(start(served, OPTIMIZER_PLAN, "custom_optimizer"), state)
    check.measure_optimizer(OPTIMIZER)
    gate = check.publish()
    assert gate.status == "passed", gate.problems


def test_r107_an_update_that_does_not_grow_with_the_rate_fails(served: ServedExchange, state: FixedState) -> None:
    bent = {0.01: AdamParams(learning_rate=0.01, eps=1e-2), 0.02: AdamParams(learning_rate=0.02, eps=1.0)}
    check = preflight(start(served, OPTIMIZER_PLAN, "custom_optimizer"), state)
    check.measure_optimizer(replace(OPTIMIZER, learning_rates=bent))
    gate = check.publish()
    assert gate.status == "failed"
    assert "R-107" in gate.problems[0]


def test_a_revision_follows_from_the_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("1\n")
    other.write_text("2\n")
    assert revision_of(one) != revision_of(other) != revision_of(one, other)
    assert revision_of(one).startswith("sha256:")


def test_a_reference_is_loaded_from_the_pinned_bytes_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("from dataclasses import dataclass\n\n\n@dataclass\nclass Two:\n    value: int = 2\n")
    assert pinned_module(file, revision_of(file)).Two().value == 2
    with pytest.raises(HarnessError, match="the plan pins sha256:0123"):
        pinned_module(file, REFERENCE)
