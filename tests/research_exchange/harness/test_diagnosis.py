"""The record after a gate stopped a run: what it holds, and how the numbers in it are counted."""

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tinker.types import Datum, ForwardBackwardOutput, ModelInput, TensorData

from research_exchange.client import GateReading, Run
from research_exchange.harness.diagnosis import Cause, Diagnosis, Schedule, deterministic_case, policy_drift
from research_exchange.harness.fixed_inputs import input_exhibit
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import DATA, start_run

FAILED = GateReading("activation_gate", "failed", "1 of 2 checks do not hold.", ("[R-123] signal: ...",))


def sequence(changes: Sequence[float], advantages: Sequence[float]) -> tuple[Datum, dict[str, TensorData]]:
    """A sequence whose tokens drifted by `changes` since they were sampled, and what a forward pass says of it."""
    sampled = np.full(len(changes), -2.0, dtype=np.float32)
    datum = Datum(
        model_input=ModelInput.from_ints([1] * len(changes)),
        loss_fn_inputs={
            "target_tokens": TensorData.from_numpy(np.ones(len(changes), dtype=np.int64)),
            "logprobs": TensorData.from_numpy(sampled),
            "advantages": TensorData.from_numpy(np.array(advantages, dtype=np.float32)),
        },
    )
    return datum, {"logprobs": TensorData.from_numpy(sampled + np.array(changes, dtype=np.float32))}


def test_r127_only_tokens_with_an_advantage_count() -> None:
    """A prompt and a group without signal have none; they may have drifted by any amount."""
    pairs = [sequence([9.0, 0.5, -0.5], [0.0, 1.0, 1.0]), sequence([0.125, 9.0], [-1.0, 0.0])]
    output = ForwardBackwardOutput(loss_fn_output_type="x", loss_fn_outputs=[result for _, result in pairs], metrics={})
    found = policy_drift([datum for datum, _ in pairs], output, threshold=0.25)
    assert (found.tokens, found.not_counted) == (3, 2)
    assert found.signed is not None and found.absolute is not None
    assert found.signed.max == found.absolute.max == 0.5
    assert found.signed.p90 == pytest.approx(np.quantile([0.5, -0.5, 0.125], 0.9))
    assert found.absolute.p99 == pytest.approx(np.quantile([0.5, 0.5, 0.125], 0.99))
    assert found.exceeding == 2
    assert found.removed == 1, "one of the two drifted against its advantage, and no clip touches it"


def test_nothing_that_counts_has_no_tails() -> None:
    datum, result = sequence([1.0], [0.0])
    output = ForwardBackwardOutput(loss_fn_output_type="x", loss_fn_outputs=[result], metrics={})
    found = policy_drift([datum], output, threshold=0.1)
    assert (found.tokens, found.signed, found.exceeding, found.removed) == (0, None, 0, 0)


def clipped(given: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """d loss / d logprob of PPO at advantage 1 and sampled logprob 0: none beyond the ratio 1.2."""
    return [np.where(np.exp(values) > 1.2, 0.0, -np.exp(values)) for values in given]


def unclipped(given: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    return [-np.exp(values) for values in given]


def test_r127_a_boundary_has_a_case_on_each_side() -> None:
    inside, outside = np.array([math.log(1.2) - 1e-9]), np.array([math.log(1.2) + 1e-9])
    quiet = deterministic_case("inside", [inside], enabled=clipped, disabled=unclipped, must_activate=False)
    active = deterministic_case("outside", [outside], enabled=clipped, disabled=unclipped, must_activate=True)
    assert quiet.holds and active.holds
    assert quiet.gradient_change == 0
    assert active.gradient_change == pytest.approx(1.2)
    broken = deterministic_case("outside", [outside], enabled=unclipped, disabled=unclipped, must_activate=True)
    assert not broken.holds


def test_the_record_is_kept_with_its_inputs(served: ServedExchange) -> None:
    run: Run = start_run(served)
    inputs = input_exhibit(DATA, "loss-inputs")
    diagnosis = Diagnosis(
        gate=FAILED,
        cause=Cause.INACTIVE_REGIME,
        explanation="No token left the clip range",
        next_diagnostic="Repeat the pilot with a sampler that lags 8 updates",
        cases=(deterministic_case("a", [np.zeros(1)], enabled=clipped, disabled=unclipped, must_activate=False),),
        inputs=(inputs,),
        schedule=Schedule(optimizer_calls=2, disjoint_minibatches=2, epochs=1, intervening_updates=0),
        gaps=("the treatment at a lag",),
    )
    kept = diagnosis.retain(run)
    files = {file["name"]: file["kind"] for file in run.record()["evidence"]}
    assert files == {kept.name: "diagnostic", inputs.name: "diagnostic"}
    document = json.loads(json.dumps(diagnosis.to_json()))
    assert document["inputs"] == [{"name": inputs.name, "sha256": inputs.sha256}]
    assert document["cases"][0]["holds"] is True
    assert document["drift"] is None
    assert diagnosis.summary == (
        "activation_gate stopped the run: No token left the clip range. "
        "Next: Repeat the pilot with a sampler that lags 8 updates."
    )
