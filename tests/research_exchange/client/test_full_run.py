"""A run that has as many updates as a run may have (R-240): its script goes on, and says what is not on record."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from research_exchange.client import Exchange, ExchangeRefused, Run
from research_exchange.client.connection import encode
from research_exchange.client.spool import Report, Spool
from research_exchange.server import updating
from research_exchange.web import create_app
from tests.research_exchange.client.specs import SPEC
from tests.research_exchange.server.serving import in_thread

ROOM = 3


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """One with room for few updates."""
    monkeypatch.setattr(updating, "MAX_UPDATES", ROOM)
    with in_thread(create_app(tmp_path / "data")) as url:
        exchange = Exchange(url, (tmp_path / "data" / "admin-token").read_text().strip())
        yield exchange.create_run(exchange.register(json.dumps(SPEC).encode()))


def session(run: Run, spool: Path | None) -> Run:
    """What a script of the run has, in a session of its own."""
    return Run(run._http.url, run.id, run.token, spool=spool)


def not_taken(run: Run) -> float:
    """What the final update says."""
    state = run.record()["state"]
    assert state["status"] == "succeeded"
    return float(state["metrics"]["metric_updates_not_taken"]["value"])


def test_a_script_goes_on_without_room_for_its_metrics_and_says_so_in_the_end(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = session(run, tmp_path)
    assert [first.metric(step=step) for step in range(6)] == [1, 2, 3, None, None, None]
    kept = tmp_path / run.id / "metrics-not-taken.jsonl"
    (warning,) = caplog.messages
    assert warning.startswith(f"R-240: {run.id} has 3 updates") and str(kept) in warning
    second = session(run, tmp_path)
    assert second.metric(step=6) is None
    assert [json.loads(line)["metrics"]["step"] for line in kept.read_text().splitlines()] == [3, 4, 5, 6]
    second.finish(outcome_reason="incomplete_execution", summary="It is over.", metrics={"loss": 0.5})
    assert not_taken(run) == 4
    assert run.record()["state"]["metrics"]["loss"]["value"] == 0.5


def test_what_a_run_cannot_do_without_is_refused_so_that_a_script_can_tell_why(run: Run, tmp_path: Path) -> None:
    script = session(run, tmp_path)
    for step in range(ROOM):
        script.metric(step=step)
    for part in ({"completed_arms": ["trained"]}, {"metrics": {"step": ROOM}}):
        with pytest.raises(ExchangeRefused, match=f"{run.id} has 3 updates") as refused:
            script.update(**part)
        assert (refused.value.is_for_want_of_room, refused.value.rule) == (True, "R-240")
    with pytest.raises(ExchangeRefused):
        script.arm("trained", accuracy=0.5)
    with pytest.raises(ExchangeRefused) as otherwise:
        script.evidence("../run.py", "script", "print(1)")
    assert not otherwise.value.is_for_want_of_room


@pytest.mark.parametrize("in_the_way", [True, False])
def test_metrics_that_can_be_kept_nowhere_are_counted(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, in_the_way: bool
) -> None:
    if in_the_way:
        (tmp_path / run.id / "metrics-not-taken.jsonl").mkdir(parents=True)
    script = session(run, tmp_path if in_the_way else None)
    for step in range(5):
        script.metric(step=step)
    assert "find no room are lost" in caplog.text
    script.finish(outcome_reason="incomplete_execution", summary="It is over.")
    assert not_taken(run) == 2


def leave(run: Run, folder: Path) -> Spool:
    """What a script said while its Exchange was away: five metrics, and an arm."""
    spool = Spool(folder / run.id)
    for step in range(ROOM + 2):
        spool.add(Report(run.id, encode({"status": "running", "metrics": {"step": step}}), is_metrics=True))
    spool.add(Report(run.id, encode({"status": "running", "completed_arms": ["trained"]})))
    return spool


def test_metrics_that_had_waited_are_kept_too_and_told_as_one(run: Run, tmp_path: Path) -> None:
    spool = leave(run, tmp_path)
    arm, metrics = map(str, run.send_spool(tmp_path))
    assert metrics.endswith(f"2 updates of metrics are kept in {spool.not_taken} instead.")
    assert "R-240" in arm and "metrics" not in arm
    assert [spool.read(path).body for path in (spool.folder / "refused").glob("*.report")] == [
        encode({"status": "running", "completed_arms": ["trained"]})
    ]
    assert (spool.waiting(), spool.count_not_taken()) == ([], 2)


def test_the_final_update_counts_what_was_still_waiting_before_it(run: Run, tmp_path: Path) -> None:
    leave(run, tmp_path)
    session(run, tmp_path).finish(outcome_reason="incomplete_execution", summary="It is over.")
    assert not_taken(run) == 2
