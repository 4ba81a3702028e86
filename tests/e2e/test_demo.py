"""The demo, on the real model: a verdict that is recomputed, and that falls when its evidence is touched.

The Exchange is killed in the middle of the run and started again, so this is also the test that nothing
acknowledged is lost and that the script goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rx import Rx
from tests.research_exchange.client.serving import ServedExchange

SPEC = Path(__file__).parents[2] / "experiments" / "arithmetic" / "spec.json"


@dataclass
class Demo:
    """What `rx run` said and left."""

    exit_code: int
    said: str
    record: dict[str, Any]
    rx: Rx

    @property
    def judgment(self) -> dict[str, Any]:
        judgment: dict[str, Any] = self.record["recorded"]
        return judgment

    def blob(self, name: str) -> Path:
        """The stored bytes of a file of evidence."""
        [sha256] = [file["sha256"] for file in self.record["evidence"] if file["name"] == name]
        [path] = [path for path in self.rx.data.rglob("*") if path.is_file() and sha256 in str(path).replace("/", "")]
        return path


@pytest.fixture(scope="module")
def demo(rx: Rx) -> Iterator[Demo]:
    served = ServedExchange(rx.data)
    served.start()
    with rx.running("run", str(SPEC), "--exchange", served.url) as running:
        running.wait_for("step 2/")
        served.kill()
        served.start()
        exit_code = running.wait()
        said, record = running.said, rx.record(running.run_id)
    yield Demo(exit_code, said, record, rx)
    served.stop()


@pytest.fixture(scope="module")
def again(demo: Demo) -> Demo:
    """The demo's own command, given a second time."""
    with demo.rx.running("run", str(SPEC), "--redo", "auto") as running:
        exit_code = running.wait()
        return Demo(exit_code, running.said, demo.rx.record(running.run_id), demo.rx)


def test_the_verdict_is_supported_and_clear_of_its_margin(demo: Demo) -> None:
    assert demo.exit_code == 0, demo.said
    assert demo.judgment["recorded_verdict"] == "supported"
    assert demo.judgment["label"] == "recomputed"
    [criterion] = demo.judgment["decision"]["criteria"]
    assert criterion["n"] == 200
    assert criterion["lower"] - criterion["margin"] >= 0.1


def test_every_gate_passed_or_is_not_applicable_by_an_explicit_false(demo: Demo) -> None:
    states = {gate["gate"]: gate["status"] for gate in demo.judgment["gates"]}
    assert {gate for gate, state in states.items() if state == "passed"} == {
        "activation_gate",
        "evaluation_comparability",
        "decision",
    }
    assert set(states.values()) == {"passed", "not_applicable"}
    assert demo.judgment["withholding_gates"] == []
    assert demo.judgment["feasibility"]["status"] == "fits", demo.judgment["feasibility"]


def test_the_second_time_repeats_the_first_and_shows_how_the_two_agree(demo: Demo, again: Demo) -> None:
    assert again.exit_code == 0, again.said
    assert (again.record["launch_mode"], again.record["redo_of"]) == ("redo", demo.record["id"])
    assert again.judgment["recorded_verdict"] == demo.judgment["recorded_verdict"]
    said = " ".join(again.said.split())
    assert f"It repeats {demo.record['id']}" in said
    assert "The result came out again: both runs are recorded as supported." in said
    assert "Single items, at equal seeds" in said


def test_progress_and_verdict_are_shown(demo: Demo) -> None:
    for words in ("reward", "loss", "tokens/s", "left", "untrained: accuracy", "supported", "effect +", "/runs/run_"):
        assert words in demo.said
    assert "rxr_" not in demo.said
    assert "tml-" not in demo.said


def test_nothing_acknowledged_was_lost_when_the_exchange_was_killed(demo: Demo) -> None:
    steps = demo.record["state"]["metrics"]["step"]["history"]
    total = demo.record["state"]["metrics"]["steps"]["value"]
    assert [step["value"] for step in steps] == list(range(1, total + 1))
    newest, total = demo.record["updates"], demo.record["updates_total"]
    assert [update["sequence"] for update in newest] == list(range(total - len(newest) + 1, total + 1))


def test_r162_the_expected_evidence_is_retained(demo: Demo) -> None:
    states = {expectation["kind"]: expectation["state"] for expectation in demo.judgment["evidence"]}
    states.pop("code_patch")  # there is one only where the files differ from their revision
    assert set(states.values()) <= {"retained", "not_applicable"}, states
    kinds = {file["kind"] for file in demo.record["evidence"]}
    assert kinds >= {"script", "effective_config", "code_revision", "predictions", "metrics", "log"}


def test_r16c_one_changed_byte_withholds_the_verdict(demo: Demo) -> None:
    observations = demo.blob("observations.jsonl")
    original = observations.read_bytes()
    observations.chmod(0o644)
    observations.write_bytes(original.replace(b'"value":0', b'"value":1', 1))
    judged = demo.rx("judge", demo.record["id"])
    observations.write_bytes(original)
    assert judged.returncode == 1
    assert "inconclusive, withheld" in judged.stdout
    assert "R-16C" in judged.stdout
    assert "other bytes" in " ".join(judged.stdout.split())
    assert demo.rx("judge", demo.record["id"]).returncode == 0, "the evidence is whole again, and so is the verdict"


def test_r16c_a_missing_observation_file_withholds_the_verdict(demo: Demo) -> None:
    observations = demo.blob("observations.jsonl")
    aside = observations.with_name("aside")
    observations.rename(aside)
    judged = demo.rx("judge", demo.record["id"])
    aside.rename(observations)
    assert judged.returncode == 1
    assert "inconclusive, withheld" in judged.stdout
    assert "R-16C" in judged.stdout
    assert demo.rx("judge", demo.record["id"]).returncode == 0
