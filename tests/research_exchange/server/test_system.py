"""Health, figures, and what the API says of itself."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from research_exchange.server.exchange import Exchange
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Runner


def figures(caller: Caller) -> dict[tuple[str, ...], float]:
    text = caller.get("/metrics").text
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_health_says_which_part_does_not_answer(nobody: Caller, data: Path, exchange: Exchange) -> None:
    assert nobody.get("/health").json()["checks"] == {"database": "ok", "evidence": "ok"}
    exchange.store.close()
    (data / "exchange.sqlite3").rename(data / "moved")
    (data / "exchange.sqlite3").mkdir()
    answer = nobody.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "failing")
    assert answer.json()["checks"] == {"database": "does not answer", "evidence": "ok"}


def test_health_is_told_while_everybody_waits_for_the_write_lock(runner: Runner, data: Path) -> None:
    """A watchdog that gets no answer would restart a server that only waits for a few seconds."""
    with ThreadPoolExecutor(60) as pool, closing(sqlite3.connect(data / "exchange.sqlite3")) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            for _ in range(60):
                pool.submit(runner.begin)
            time.sleep(1)
            assert httpx.get(f"{runner.http.base_url}/health", timeout=10).json()["status"] == "ok"
        finally:
            other.rollback()


def test_the_figures_count_requests_runs_and_judgments(admin: Caller, runner: Runner) -> None:
    runner.finish(150)
    for _ in range(3):
        runner.judgment()
        runner.get(f"/nothing/{runner.run}")
    told = figures(admin)
    assert told["rx_runs", "ended"] == 1
    assert told["rx_judgments_total",] == 1, "the one that was recorded; who asked later got the same"
    assert told["rx_requests_total", "GET", "/api/runs/{run_id}/judgment", "200"] == 3
    assert told["rx_requests_total", "GET", "none", "404"] == 3, "paths that are nobody's share a name"
    assert runner.run not in admin.get("/metrics").text
    assert admin.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_every_address_says_what_it_is_for_and_what_it_answers(nobody: Caller) -> None:
    described = nobody.get("/api/openapi.json").json()
    silent = [
        f"{method} {path}"
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if not operation.get("description")
    ]
    assert silent == []


def test_what_a_judgment_is_made_from_changes_it_and_nothing_else_does(admin: Caller, runner: Runner) -> None:
    runner.update(scenarios.calibration())
    for _ in range(3):
        runner.judgment()
        runner.record()
    assert figures(admin)["rx_judgments_total",] == 1
    runner.upload("observations.jsonl", scenarios.observations(150))
    runner.judgment()
    runner.update(scenarios.final(150))
    assert figures(admin)["rx_judgments_total",] == 3
