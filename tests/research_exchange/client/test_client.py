"""The script's side of reporting, against a real Exchange in a process of its own."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from research_exchange.client import Exchange, ExchangeError, ExchangeRefused, ExchangeUnreachable, Run
from tests.research_exchange.client.serving import ServedExchange, free_port, served_exchange
from tests.research_exchange.client.specs import SPEC


def test_the_same_bytes_are_the_same_spec(served: ServedExchange) -> None:
    exchange = served.connect()
    assert exchange.register(json.dumps(SPEC).encode()) == exchange.register(json.dumps(SPEC).encode())


def test_a_script_finds_its_run_in_the_environment(run: Run) -> None:
    url = run.page.removesuffix(f"/runs/{run.id}")
    environment = {"RX_URL": url, "RX_RUN_ID": run.id, "RX_RUN_TOKEN": run.token or ""}
    assert Run.from_env(environment).spec() == SPEC


def test_a_script_without_a_run_is_told_what_is_missing() -> None:
    with pytest.raises(ExchangeError, match="RX_RUN_ID and RX_RUN_TOKEN not set"):
        Run.from_env({"RX_URL": "http://127.0.0.1:1"})


def test_metrics_and_arms_reach_the_run(run: Run) -> None:
    assert run.metric(step=1, reward=0.25) == 1
    assert run.metric(step=2) == 2
    assert run.arm("untrained", accuracy=0.24) == 3
    state = run.record()["state"]
    assert state["metrics"]["step"]["value"] == 2
    assert state["metrics"]["reward"]["value"] == 0.25
    assert state["arms"]["untrained"]["accuracy"]["value"] == 0.24
    assert list(state["completed_arms"]) == ["untrained"]


def test_r068_a_number_that_is_none_never_leaves_the_script(run: Run) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        run.metric(loss=float("nan"))
    assert run.record()["updates"] == []


def test_evidence_from_text_bytes_and_path_is_the_same(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("print(1)\n")
    kept = [run.evidence("run.py", "script", form) for form in ("print(1)\n", b"print(1)\n", path)]
    assert len(set(kept)) == 1
    assert [file["sha256"] for file in run.record()["evidence"]] == [kept[0].sha256]


def test_r164_a_name_taken_by_other_bytes_is_refused_with_the_rule(run: Run) -> None:
    run.evidence("run.py", "script", "print(1)\n")
    with pytest.raises(ExchangeRefused, match="R-164") as refused:
        run.evidence("run.py", "script", "print(2)\n")
    assert refused.value.status == 422
    assert refused.value.problems


def test_r169_a_credential_is_refused_and_not_repeated(run: Run) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3h"
    with pytest.raises(ExchangeRefused, match="R-169") as refused:
        run.evidence("notes.txt", "other", f"token: {secret}\n")
    assert secret not in str(refused.value)


def test_r123_the_gate_lets_nobody_through_before_it_passes(run: Run) -> None:
    missing = run.gate("activation_gate")
    assert not missing.may_go_on
    run.update(activation_calibration={"values": {"reward": 0.95}})
    outside = run.gate("activation_gate")
    assert not outside.may_go_on
    assert "0.95" in " ".join(outside.problems)
    run.update(activation_calibration={"values": {"reward": 0.5}})
    assert run.gate("activation_gate").may_go_on


def test_an_unknown_gate_is_an_error_and_not_a_pass(run: Run) -> None:
    with pytest.raises(ExchangeError, match="no gate 'nonsense'"):
        run.gate("nonsense")


def test_finish_ends_the_run(run: Run) -> None:
    run.finish(summary="Nothing was measured.", outcome_reason="incomplete_execution")
    record = run.record()
    assert record["state"]["status"] == "succeeded"
    assert record["recorded"]["recorded_verdict"] == "inconclusive"


def test_a_wrong_token_is_refused_at_once_and_never_shown(served: ServedExchange, run: Run) -> None:
    stranger = Run(served.url, run.id, "rxr_stranger")
    began = time.monotonic()
    with pytest.raises(ExchangeRefused) as refused:
        stranger.metric(step=1)
    assert time.monotonic() - began < 5
    assert "rxr_stranger" not in f"{refused.value} {stranger!r} {stranger._http!r}"


def test_nobody_there_is_one_sentence_after_the_time_allowed() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ExchangeUnreachable, match=r"No Exchange answers at .*rx serve"):
        Exchange(url, patience=1.0).runs()


REPORT_WITH_A_FORK = """
import os, sys, time
from research_exchange.client import Run
run = Run.from_env()
run.metric(step=0)
child = os.fork()
for step in range(1, 21):
    run.metric(**{"child" if child == 0 else "step": step})
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_script_reports_beside_its_parent_and_no_proxy_stands_between(
    served: ServedExchange, run: Run
) -> None:
    """Neither takes the other's answers, and the way to this machine is never through a proxy."""
    variables = {"RX_URL": served.url, "RX_RUN_ID": run.id, "RX_RUN_TOKEN": run.token or ""}
    proxy = f"http://127.0.0.1:{free_port()}"
    environment = {**os.environ, **variables, "HTTP_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": ""}
    subprocess.run([sys.executable, "-c", REPORT_WITH_A_FORK], env=environment, check=True, timeout=60)
    metrics = run.record()["state"]["metrics"]
    for name, first in (("step", 0), ("child", 1)):
        assert [entry["value"] for entry in metrics[name]["history"]] == list(range(first, 21))
    assert len(run.record()["updates"]) == 41


def test_nothing_acknowledged_is_lost_when_the_exchange_is_killed_and_the_client_goes_on(tmp_path: Path) -> None:
    """kill -9 in a stream of updates and files, twice, with a restart on the same port."""
    with served_exchange(tmp_path) as served:
        exchange = served.connect()
        run = exchange.create_run(exchange.register(json.dumps(SPEC).encode()))
        acknowledged: list[int] = []

        def report() -> None:
            for step in range(60):
                run.metric(step=step)
                run.evidence(f"step-{step}.txt", "other", str(step))
                acknowledged.append(step)

        script = threading.Thread(target=report)
        script.start()
        for count in (10, 30):
            while len(acknowledged) < count:
                assert script.is_alive(), "the client gave up"
                time.sleep(0.01)
            served.kill()
            time.sleep(1)
            served.start()
        script.join(120)

        assert acknowledged == list(range(60))
        record = run.record()
        history = [entry["value"] for entry in record["state"]["metrics"]["step"]["history"]]
        assert history == list(range(60)), "every step once, in order: nothing lost, nothing twice"
        assert {file["name"] for file in record["evidence"]} == {f"step-{step}.txt" for step in range(60)}
        assert record["updates_total"] == 60
