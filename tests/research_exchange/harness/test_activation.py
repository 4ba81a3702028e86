"""The pilot on record, and the end of a run that a gate stops."""

from typing import Any

import pytest

from research_exchange.client import Run
from research_exchange.harness.activation import publish_pilot
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.gates import must_pass, stopped_runs_end
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import start_run

GATE = {
    "applicable": True,
    "checks": [
        {"metric": "signal", "measures": "share of groups", "min": 0.25},
        {"metric": "model", "measures": "what runs", "one_of": ["m"]},
    ],
}


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return start_run(served, activation_gate=GATE)


def test_r122_values_inside_their_ranges_let_the_run_go_on(run: Run) -> None:
    must_pass(publish_pilot(run, {"signal": 0.25, "model": "m"}, note="2 steps"))
    [calibration] = run.record()["state"]["posted"]["activation_calibration"]
    assert calibration == 1


@pytest.mark.parametrize("values", [{"signal": 0.24, "model": "m"}, {"signal": 0.5}])
def test_r123_a_run_that_is_stopped_ends_inconclusive(run: Run, values: dict[str, Any]) -> None:
    gate = publish_pilot(run, values, note="2 steps")
    with stopped_runs_end(run):
        must_pass(gate)
        raise AssertionError("it goes on")
    judgment = run.judgment()
    assert (judgment["status"], judgment["recorded_verdict"]) == ("failed", "inconclusive")
    assert not [flag for flag in judgment["flags"] if flag["rule"] in ("R-061", "R-062", "R-072")]


def test_a_check_that_cannot_be_made_ends_the_run_with_its_sentence(run: Run) -> None:
    with stopped_runs_end(run):
        raise HarnessError("The service serves no such model.")
    state = run.record()["state"]
    assert (state["status"], state["outcome_reason"]) == ("failed", "incomplete_execution")
    assert state["summary"] == "The service serves no such model."
