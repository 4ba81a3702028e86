"""R-201: a run does not ask a full service for ever, though the stock SDK would."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import tinker

from research_exchange.capacity import Patience
from research_exchange.client import Run
from research_exchange.harness.capacity import CapacityClock
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.full_service import full_service
from tests.servers import MODEL, SpindleServer

OPENING = """
import tinker
from tinker.types import AdamParams, Datum, ModelInput, TensorData
from research_exchange.capacity import Patience
from research_exchange.client import Run
from research_exchange.harness.capacity import capacity_clock

run = Run.from_env()
patience = Patience(pauses=(1, 1, 1), before_comparison=6, during_comparison=10, quiet=60)
with tinker.ServiceClient() as service, capacity_clock(run, service, patience=patience) as capacity:
    learner = capacity.ask(lambda: service.create_lora_training_client("MODEL", rank=4, seed=0).result())
""".replace("MODEL", MODEL)

ONE_STEP = """
    inputs = {"target_tokens": TensorData(data=[2, 3], dtype="int64", shape=[2]),
              "weights": TensorData(data=[1.0, 1.0], dtype="float32", shape=[2])}
    data = [Datum(model_input=ModelInput.from_ints([1, 2]), loss_fn_inputs=inputs)]
    for step in range(3):
        learner.forward_backward(data, "cross_entropy").result()
        learner.optim_step(AdamParams(learning_rate=1e-4)).result()
        capacity.step()
        run.metric(step=step + 1)
run.finish(outcome_reason="insufficient_evidence", summary="Trained.")
"""


@pytest.fixture(scope="module")
def spindle(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    server = SpindleServer(model_directory, tmp_path_factory.mktemp("behind") / "data").start()
    yield server
    server.stop()


def new_run(served: ServedExchange) -> Run:
    exchange = served.connect()
    spec = {"title": "Capacity", "arms": [{"name": "a"}], "budget": {"max_wall_minutes": 60}}
    return exchange.create_run(exchange.register(json.dumps(spec).encode(), legacy=True))


def execute(script: str, run: Run, url: str, key: str = "tml-none-0000000000") -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RX_", "TINKER_"))}
    environment |= {"TINKER_BASE_URL": url, "TINKER_API_KEY": key, "TINKER_TELEMETRY": "0"}
    environment |= {"RX_URL": run.page.partition("/runs/")[0], "RX_RUN_ID": run.id, "RX_RUN_TOKEN": run.token or ""}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_r201_a_run_that_never_got_a_machine_ends_and_may_start_again(served: ServedExchange) -> None:
    run = new_run(served)
    with full_service(lambda path: True) as full:
        began = time.monotonic()
        script = execute(OPENING + "    raise AssertionError\n", run, full.url)
    assert 6 < time.monotonic() - began < 40
    assert script.returncode == 1
    assert script.stderr.splitlines()[-1].startswith("The training service had no capacity for too long (HTTP 429 for ")
    assert "Traceback" not in script.stderr
    state = run.record()["state"]
    assert (state["status"], state["verdict"], state["outcome_reason"]) == (
        "failed",
        "inconclusive",
        "incomplete_execution",
    )
    block = state["capacity_block"]
    assert block["error"].startswith("HTTP 429 for ")
    assert (block["comparison_steps_completed"], block["released_clients"]) == (0, True)
    assert state["final_update"] == 4, "after 1, 2 and 3 seconds it said that it is still waiting"
    assert run.judgment()["capacity"]["requeue"] == "eligible"


def test_r201_a_full_service_that_finds_room_in_time_costs_nothing_but_time(
    served: ServedExchange, spindle: SpindleServer
) -> None:
    run = new_run(served)
    with full_service(lambda path: False, behind=spindle.url) as full:
        full.refuses = lambda path: path == "/api/v1/create_model" and full.requests.count(path) <= 3
        script = execute(OPENING + ONE_STEP, run, full.url, spindle.key)
    assert script.returncode == 0, script.stderr
    assert full.requests.count("/api/v1/create_model") == 4
    assert run.record()["state"]["status"] == "succeeded"


def test_r201_steps_that_were_done_are_waited_for_longer_and_counted(
    served: ServedExchange, spindle: SpindleServer
) -> None:
    run = new_run(served)
    with full_service(lambda path: False, behind=spindle.url) as full:
        full.refuses = lambda path: path == "/api/v1/forward_backward" and full.requests.count(path) > 2
        script = execute(OPENING + ONE_STEP, run, full.url, spindle.key)
    assert script.returncode == 1, script.stderr
    assert run.record()["state"]["capacity_block"] == {
        "error": "HTTP 429 for POST /api/v1/forward_backward",
        "comparison_steps_completed": 2,
        "released_clients": True,
    }
    assert run.judgment()["capacity"]["requeue"] == "human"


def test_r201_a_refusal_that_the_sdk_raises_is_asked_again_and_any_other_error_is_not() -> None:
    request = httpx.Request("POST", "http://127.0.0.1/api/v1/create_model")
    full = tinker.RateLimitError("trainer capacity exhausted", response=httpx.Response(429, request=request), body=None)
    bad = tinker.BadRequestError("no such model", response=httpx.Response(400, request=request), body=None)
    clock = CapacityClock(Run("http://127.0.0.1:9", "run_0000000000"), Patience(pauses=(0.01,)))
    answers: list[Exception | str] = [full, full, "a client"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert clock.ask(call) == "a client"
    answers[:] = [bad]
    with pytest.raises(tinker.BadRequestError):
        clock.ask(call)
