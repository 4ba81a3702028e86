"""Where nothing is learned, nothing is supported; and a run that loses its training service ends with a reason."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rx import Rx
from tests.e2e.test_demo import SPEC

Control = Callable[..., Path]


@pytest.fixture
def control(tmp_path: Path) -> Control:
    """The demo's experiment with another spec: the same script does what that one says."""

    def _control(*, steps: int, learning_rate: float | None = None, reward: str = "exact_match") -> Path:
        folder = tmp_path / "control"
        shutil.copytree(SPEC.parent, folder)
        spec: dict[str, Any] = json.loads(SPEC.read_text())
        spec["title"] = f"Control: {steps} steps, learning rate {learning_rate}, reward {reward}"
        spec["steps"] = steps
        spec["arms"][0]["reward"] = reward
        if learning_rate is not None:
            spec["optimizer"]["lr"] = learning_rate
        path = folder / "spec.json"
        path.write_text(json.dumps(spec))
        return path

    return _control


def test_learning_rate_0_is_not_supported(rx: Rx, control: Control) -> None:
    """Nothing runs before: `rx` starts the Exchange and the training service, and stops both."""
    with rx.running("run", str(control(steps=2, learning_rate=0.0))) as running:
        assert running.wait() == 0, running.said
    assert rx.left_running() == []
    judgment = rx.record(running.run_id)["recorded"]
    [criterion] = judgment["decision"]["criteria"]
    assert criterion["effect"] == 0, "the same weights give the same answers"
    assert judgment["recorded_verdict"] == "refuted"


def test_shuffled_rewards_are_not_supported(rx: Rx, control: Control) -> None:
    with rx.running("run", str(control(steps=6, reward="shuffled"))) as running:
        assert running.wait() == 0, running.said
    judgment = rx.record(running.run_id)["recorded"]
    assert judgment["decision"]["status"] == "passed"
    assert judgment["recorded_verdict"] != "supported"


def test_r067_a_killed_training_service_ends_the_run_as_partial_with_the_reason(rx: Rx, control: Control) -> None:
    with rx.running("run", str(control(steps=20))) as running:
        running.wait_for("step 1/20")
        running.kill_training_service()
        assert running.wait() == 1
    assert rx.left_running() == []
    reason = "The training service was ended by SIGKILL during the run, so the script was stopped."
    assert reason in running.said
    record = rx.record(running.run_id)
    assert reason in record["recorded"]["explanation"]
    assert record["recorded"]["recorded_verdict"] == "inconclusive"
    assert record["recorded"]["outcome_reason"] == "incomplete_execution"
    assert record["state"]["arms"]["untrained"]["accuracy"]["value"] > 0, "what was finished counts"
    assert list(record["state"]["completed_arms"]) == ["untrained"]
