"""A training that is killed and taken up again ends in the same weights as one that was left alone."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tinker

from research_exchange.client import Run
from research_exchange.harness.checkpoints import Checkpoints, _compare
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.work import replace_file, work_folder
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness import resumable
from tests.research_exchange.harness.comparing import new_run
from tests.servers import SpindleServer

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return new_run(served)


def start(run: Run, served: ServedExchange, spindle: SpindleServer, work: Path) -> "subprocess.Popen[str]":
    environment = {
        **spindle.client_environment(),
        "RX_URL": served.url,
        "RX_RUN_ID": run.id,
        "RX_RUN_TOKEN": str(run.token),
        "RX_WORK": str(work),
    }
    command = [sys.executable, "-m", "tests.research_exchange.harness.resumable"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)


def test_a_killed_training_goes_on_from_its_last_checkpoint_to_the_same_weights(
    served: ServedExchange, spindle: SpindleServer, service: tinker.ServiceClient, run: Run, tmp_path: Path
) -> None:
    undisturbed = resumable.train(new_run(served), service, tmp_path / "undisturbed")

    first = start(run, served, spindle, tmp_path / "work")
    assert first.stdout is not None
    for line in first.stdout:
        if line == "step 3\n":
            break
    first.kill()
    first.communicate()
    state = json.loads((tmp_path / "work" / "training-trained-seed0.json").read_text())
    assert (state["run"], state["step"], state["notes"]) == (run.id, 2, {"seen": 2})

    said = start(run, served, spindle, tmp_path / "work").communicate(timeout=120)[0].splitlines()
    assert said[:-1] == ["step 3", "step 4"], "what the checkpoint holds is not trained again"
    assert [float(word) for word in said[-1].split()[1:]] == undisturbed
    again = Checkpoints(run, "trained", every=2, folder=tmp_path / "work")
    assert again.state is not None
    assert (again.step, again.state.resumed, again.notes) == (4, 1, {"seen": 4})
    elsewhere = Checkpoints(run, "trained", every=2, folder=tmp_path / "another machine")
    assert elsewhere.state == replace(again.state, resumed=0, notes={})
    posted = [json.loads(served.connect().posted(run.id, number)) for number in (1, 2)]
    assert [entry["step"] for update in posted for entry in update["evidence"]["checkpoints"]] == [2, 4]


def test_another_run_does_not_go_on_from_here(
    served: ServedExchange, run: Run, learner: tinker.TrainingClient, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(run, "arm/α", seed=3, every=5, folder=tmp_path)
    assert not checkpoints.after(learner, 4)
    assert checkpoints.after(learner, 5)
    assert Checkpoints(run, "arm/α", seed=3, every=5, folder=tmp_path).step == 5
    assert Checkpoints(run, "arm/α", seed=4, every=5, folder=tmp_path).step == 0, "another seed is another training"
    (tmp_path / "training-arm%2F%CE%B1-seed3.json").replace(tmp_path / "aside")
    assert Checkpoints(run, "arm/α", seed=3, every=5, folder=tmp_path).step == 5, "by the Exchange's record"
    (tmp_path / "aside").replace(tmp_path / "training-arm%2F%CE%B1-seed3.json")
    with pytest.raises(HarnessError, match=f"holds the training of {run.id}"):
        Checkpoints(new_run(served), "arm/α", seed=3, every=5, folder=tmp_path)


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"step": 1}'])
def test_a_file_that_is_no_state_is_named(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "training-trained-seed0.json").write_bytes(content)
    with pytest.raises(HarnessError, match=r"training-trained-seed0\.json holds no training state"):
        Checkpoints(run, "trained", every=1, folder=tmp_path)


@pytest.mark.parametrize(
    ("restored", "sentence"),
    [({"type": "adamw"}, "whose type is 'adamw'; saved was 'muon'"), ({"type": "muon", "step": 0}, "whose step is 0")],
)
def test_a_silent_fallback_of_the_optimizer_stops_the_run(restored: dict[str, Any], sentence: str) -> None:
    _compare({"type": "muon", "step": 7}, {"type": "muon", "step": 7, "more": 1})
    with pytest.raises(HarnessError, match=sentence):
        _compare({"type": "muon", "step": 7}, restored)


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder" / "state.json"
    replace_file(path, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_the_work_folder_is_the_runs(tmp_path: Path) -> None:
    assert work_folder({"RX_WORK": str(tmp_path)}) == tmp_path
    assert work_folder({}) == Path("state")
