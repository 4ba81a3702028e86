"""Judging a run and putting its outcome on record (R-011, R-067, R-070, R-210 to R-214)."""

from pathlib import Path
from typing import Any

import pytest

from research_exchange import judgment
from research_exchange.judgment import Judgment
from research_exchange.server.exchange import Exchange
from research_exchange.store import SessionEnd
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Runner


def _blob_of(runner: Runner, data: Path, name: str) -> Path:
    digest = next(file["sha256"] for file in runner.record()["evidence"] if file["name"] == name)
    assert isinstance(digest, str)
    return data / "blobs" / digest[:2] / digest[2:]


def test_a_final_update_records_the_outcome(runner: Runner) -> None:
    assert runner.finish(150).status_code == 201
    record = runner.record()
    assert record["recorded"]["recorded_verdict"] == "supported"
    assert record["recorded"]["reported_verdict"] == "supported"
    assert record["recorded"] == runner.judgment()
    [outcome] = record["outcomes"]
    assert outcome["cause"] == "final update 2"
    assert outcome["validator_version"] == judgment.VERSION


def test_nothing_is_recorded_while_a_run_goes_on(runner: Runner) -> None:
    runner.update(scenarios.progress(1, 0.5))
    record = runner.record()
    assert (record["recorded"], record["outcomes"]) == (None, [])


@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_tampered_observation_withholds_the_verdict(runner: Runner, data: Path, harm: str) -> None:
    """R-16C, R-210: the record stands until somebody asks; the new one stands after it, never over it."""
    runner.finish(150)
    blob = _blob_of(runner, data, "observations.jsonl")
    if harm == "changed":
        blob.write_bytes(blob.read_bytes().replace(b'"value": 0', b'"value": 1', 1))
    else:
        blob.unlink()
    now = runner.judgment()
    assert now["withheld"] is True
    assert now["recorded_verdict"] == "inconclusive"
    assert now["reported_verdict"] == "supported"
    assert runner.record()["recorded"]["recorded_verdict"] == "supported"

    recorded = runner.post(f"{runner.path}/judgment")
    assert recorded.status_code == 200
    assert recorded.json() == now
    record = runner.record()
    assert record["recorded"] == now
    assert [outcome["cause"] for outcome in record["outcomes"]] == ["final update 2", "asked for"]


def test_a_verdict_against_its_own_data_is_not_recorded(runner: Runner) -> None:
    """R-14B."""
    runner.finish(10, verdict="supported")
    recorded = runner.record()["recorded"]
    assert (recorded["reported_verdict"], recorded["recorded_verdict"]) == ("supported", "inconclusive")


def test_a_failing_activation_gate_withholds(runner: Runner) -> None:
    """R-123, R-210."""
    runner.update(scenarios.calibration(reward=0.0))
    runner.upload("observations.jsonl", scenarios.observations(150))
    runner.update(scenarios.final(150))
    recorded = runner.record()["recorded"]
    assert (recorded["recorded_verdict"], recorded["withheld"]) == ("inconclusive", True)
    [gate] = [gate for gate in recorded["gates"] if gate["gate"] == "activation_gate"]
    assert gate["status"] == "failed"


def test_an_update_after_the_final_one_changes_nothing_recorded(runner: Runner) -> None:
    """R-070."""
    runner.finish(150)
    before = runner.record()["recorded"]
    late = runner.update({"status": "failed", "verdict": "refuted"})
    assert late.status_code == 201
    record = runner.record()
    assert record["recorded"]["recorded_verdict"] == before["recorded_verdict"]
    assert len(record["outcomes"]) == 1
    assert len(record["updates"]) == 3


def test_a_file_that_is_uploaded_after_the_final_update_changes_nothing_recorded(runner: Runner) -> None:
    """R-070: not even when the runner asks for a judgment, and whatever the final update said of the file."""
    runner.update(scenarios.calibration())
    runner.update(scenarios.final(150))
    before = runner.record()["recorded"]
    assert before["recorded_verdict"] == "inconclusive"
    assert runner.upload("observations.jsonl", scenarios.observations(150)).status_code == 201
    assert runner.upload("log-1.txt", b"The end.\n", kind="log").status_code == 201
    after = runner.post(f"{runner.path}/judgment").json()
    [remark] = [flag["text"] for flag in after.pop("flags") if flag["rule"] == "R-070"]
    assert remark == 'The file "observations.jsonl" came after the final update; it is kept and changes nothing.'
    assert after == {key: value for key, value in before.items() if key != "flags"}


def test_sending_the_final_update_again_records_once(runner: Runner) -> None:
    runner.finish(150)
    again = runner.update(scenarios.final(150))
    assert again.status_code == 200
    assert len(runner.record()["outcomes"]) == 1


def test_a_session_that_ends_without_a_final_update_leaves_partial_results(runner: Runner) -> None:
    """R-067."""
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.update(
        {"status": "running", "metrics": {"arms": {"untrained": {"accuracy": 0.0}}}, "completed_arms": ["untrained"]}
    )
    ended = runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 137, "reason": "killed by signal 9"})
    assert ended.status_code == 200
    record = runner.record()
    assert record["recorded"]["recorded_verdict"] == "inconclusive"
    assert record["recorded"]["outcome_reason"] == "incomplete_execution"
    assert record["state"]["completed_arms"] == {"untrained": 1}
    [told] = record["sessions"]
    assert (told["exit_code"], told["reason"]) == (137, "killed by signal 9")
    [outcome] = record["outcomes"]
    assert session in outcome["cause"]


def test_a_session_that_ends_after_the_final_update_changes_nothing(runner: Runner) -> None:
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.finish(150)
    for _ in range(2):
        ended = runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "the command ended"})
        assert ended.status_code == 200
    assert [outcome["cause"] for outcome in runner.record()["outcomes"]] == ["final update 2"]


def test_a_run_whose_other_session_goes_on_is_not_over(runner: Runner) -> None:
    first, _ = (runner.post(f"{runner.path}/sessions").json()["session"] for _ in range(2))
    runner.post(f"{runner.path}/sessions/{first}/end", {"exit_code": 1, "reason": "crashed"})
    assert runner.record()["recorded"] is None


def test_a_session_that_a_killed_runner_left_open_does_not_keep_the_run_open(runner: Runner) -> None:
    _, second = (runner.post(f"{runner.path}/sessions").json()["session"] for _ in range(2))
    runner.post(f"{runner.path}/sessions/{second}/end", {"exit_code": 1, "reason": "crashed"})
    assert runner.record()["recorded"]["outcome_reason"] == "incomplete_execution"


def test_a_final_update_that_comes_while_the_end_is_judged_is_what_stands(runner: Runner, exchange: Exchange) -> None:
    """Whoever saw the run before its final update must not record after it that there was none."""
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.update(scenarios.calibration())
    runner.upload("observations.jsonl", scenarios.observations(150))
    with exchange.store.writing() as writer:
        writer.end_session(session, SessionEnd(exchange.clock(), 0, "the command ended"))
    seen_before = exchange.view(runner.run)
    runner.update(scenarios.final(150))
    exchange.recording.settle_view(seen_before)
    exchange.recording.record(seen_before, "admin")
    record = runner.record()
    assert record["recorded"]["recorded_verdict"] == "supported"
    assert [outcome["cause"] for outcome in record["outcomes"]] == ["final update 2", "asked for"]


def test_one_run_that_cannot_be_judged_does_not_keep_the_others_from_being_settled(
    runner: Runner, other_runner: Runner, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exchange.store.writing() as writer:
        for run in (runner.run, other_runner.run):
            writer.append_update(run, scenarios.encode(scenarios.final(150)), None, exchange.clock())
    rounds = iter(["fails"])

    def judge_badly_once(*arguments: Any, **options: Any) -> Judgment:
        if next(rounds, None):
            raise ZeroDivisionError
        return judgment.judge(*arguments, **options)

    monkeypatch.setattr("research_exchange.server.views.judge", judge_badly_once)
    exchange.recording.settle_all()
    assert [len(each.record()["outcomes"]) for each in (runner, other_runner)] == [0, 1]


def test_a_second_session_may_still_finish_the_run(runner: Runner) -> None:
    """R-004: a re-queue adds a session; its final update is recorded after the partial result."""
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 1, "reason": "crashed"})
    runner.post(f"{runner.path}/sessions")
    runner.finish(150)
    record = runner.record()
    assert len(record["outcomes"]) == 2
    assert record["recorded"]["recorded_verdict"] == "supported"


def test_an_unknown_session_cannot_end(runner: Runner, other_runner: Runner) -> None:
    foreign = other_runner.post(f"{other_runner.path}/sessions").json()["session"]
    for session in ("ses_0000000000", foreign):
        answer = runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "done"})
        assert answer.status_code == 404


@pytest.mark.parametrize("body", [{}, {"exit_code": "0", "reason": "x", "more": 1}, {"exit_code": 0, "reason": 3}])
def test_the_end_of_a_session_has_a_form(runner: Runner, body: dict[str, object]) -> None:
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    answer = runner.post(f"{runner.path}/sessions/{session}/end", body)
    assert answer.status_code == 422
    assert answer.json()["problems"]


def test_what_a_killed_server_left_unrecorded_is_recorded_at_the_next_start(runner: Runner, exchange: Exchange) -> None:
    """The final update is on the disk; the process died before it judged."""
    runner.update(scenarios.calibration())
    runner.upload("observations.jsonl", scenarios.observations(150))
    with exchange.store.writing() as writer:
        writer.append_update(runner.run, scenarios.encode(scenarios.final(150)), None, exchange.clock())
    assert runner.record()["recorded"] is None
    exchange.recording.settle_all()
    assert runner.record()["recorded"]["recorded_verdict"] == "supported"
    exchange.recording.settle_all()
    assert len(runner.record()["outcomes"]) == 1


def test_two_who_settle_the_same_end_at_once_record_it_once(runner: Runner, exchange: Exchange) -> None:
    """Both saw the run before either had recorded its outcome."""
    with exchange.store.writing() as writer:
        writer.append_update(runner.run, scenarios.encode(scenarios.final(150)), None, exchange.clock())
    seen_by_both = exchange.view(runner.run)
    exchange.recording.settle_view(seen_by_both)
    exchange.recording.settle_view(seen_by_both)
    assert len(runner.record()["outcomes"]) == 1


def test_a_judgment_has_the_same_bytes_each_time(runner: Runner) -> None:
    runner.finish(150)
    first, second = (runner.get(f"{runner.path}/judgment").content for _ in range(2))
    assert first == second
