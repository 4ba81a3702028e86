"""GET /api/runs/{id}/bundle: what comes out can be verified, whatever a run went through."""

from pathlib import Path

import pytest

from research_exchange.bundles import Standing, Verification, VerificationStatus, open_members, read_record, verify
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Runner, SteppingClock
from tests.research_exchange.server.test_queue import out_of_capacity


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return tmp_path / "bundle.zip"


def fetch(runner: Runner, bundle: Path) -> Verification:
    answer = runner.get(f"{runner.path}/bundle")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    bundle.write_bytes(answer.content)
    return verify(bundle)


def standings(report: Verification) -> list[tuple[str, Standing, str]]:
    return [(check.member, check.standing, check.recorded) for check in report.judgments]


def test_a_run_is_verified_with_what_came_late_and_each_time_it_is_the_same_file(
    runner: Runner, admin: Caller, bundle: Path
) -> None:
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.upload("notes.txt", "ä".encode(), kind="report")
    runner.upload("secret.sh", b"export TINKER_API_KEY=tml-a1B2c3D4e5F6g7H8i9J0k1L2\n", kind="script")
    runner.finish()
    runner.upload("late.txt", b"late", kind="report")
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "The script ended."})
    runner.update({"status": "running", "summary": "Late."})
    runner.update(b"not json")
    admin.post(f"{runner.path}/judgment")
    report = fetch(runner, bundle)
    assert (report.status, report.problems) == (VerificationStatus.VERIFIED, ())
    assert standings(report) == [
        ("judgment.json", Standing.SAME, "supported"),
        ("judgments/0001.json", Standing.SAME, "supported"),
        ("judgments/0002.json", Standing.SAME, "supported"),
    ]
    with open_members(bundle) as members:
        record = read_record(members)
        assert [session.id for session in record.sessions] == [session]
        assert (record.refused[0].name, record.refused[0].problems[0][:5]) == ("secret.sh", "R-169")
        assert members.read("evidence/notes.txt") == "ä".encode()
        assert {record.run.id, record.run.launch_mode} == {runner.run, "ordinary"}
    assert runner.get(f"{runner.path}/bundle").content == bundle.read_bytes()


def test_a_run_that_stopped_halfway_is_verified(runner: Runner, bundle: Path) -> None:
    assert fetch(runner, bundle).status is VerificationStatus.VERIFIED
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.update({"status": "running", "metrics": {"step": 1}})
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 1, "reason": "It was killed."})
    runner.upload("train.log", b"Killed\n", kind="log")
    report = fetch(runner, bundle)
    assert report.status is VerificationStatus.VERIFIED
    assert standings(report)[1:] == [("judgments/0001.json", Standing.SAME, "inconclusive")]


def test_a_file_that_the_exchange_lost_is_said_and_what_it_bore_out_does_not_come_again(
    runner: Runner, data: Path, bundle: Path
) -> None:
    runner.finish()
    sha256 = next(file["sha256"] for file in runner.record()["evidence"])
    (stored,) = (path for path in data.rglob("*") if path.parent.name + path.name == sha256)
    stored.unlink()
    report = fetch(runner, bundle)
    assert [loss.member for loss in report.lost] == ["evidence/observations.jsonl"]
    assert (report.status, report.problems) == (VerificationStatus.FAILED, ())
    assert standings(report) == [
        ("judgment.json", Standing.SAME, "inconclusive, withheld"),
        ("judgments/0001.json", Standing.DIFFERENT, "supported"),
    ]


def test_the_idea_as_it_was_and_the_brief_of_each_session_are_in_it(admin: Caller, bundle: Path) -> None:
    idea = admin.post("/api/ideas", {"title": "Größer?", "triage": "Try it."}).json()["id"]
    spec = admin.post("/api/specs", scenarios.spec(), idea=idea, legacy="true").json()["id"]
    admin.post(f"/api/ideas/{idea}/snapshots", {"title": "Something else."})
    created = admin.post("/api/runs", {"spec_id": spec}).json()
    runner = Runner(admin.http, created["token"], created["id"])
    runner.begin()
    assert fetch(runner, bundle).status is VerificationStatus.VERIFIED
    with open_members(bundle) as members:
        record = read_record(members)
        assert record.idea is not None
        assert (record.idea.id, record.idea.snapshot) == (idea, 1)
        assert (record.idea.title, record.idea.triage) == ("Größer?", "Try it.")
        (session,) = record.sessions
        assert members.read(str(session.brief)) == runner.get(f"{runner.path}/brief").content


def test_a_run_that_waited_for_capacity_and_one_that_was_called_off_are_verified(
    admin: Caller, runner: Runner, other_runner: Runner, clock: SteppingClock, bundle: Path
) -> None:
    runner.begin()
    runner.update(out_of_capacity())
    clock.jump(minutes=15)
    assert admin.post("/api/queue/claim").json()["run"] == runner.run
    runner.begin()
    runner.finish()
    report = fetch(runner, bundle)
    assert report.status is VerificationStatus.VERIFIED
    assert standings(report)[1:] == [
        ("judgments/0001.json", Standing.SAME, "inconclusive"),
        ("judgments/0002.json", Standing.SAME, "supported"),
    ]
    other_runner.begin()
    other_runner.update(scenarios.progress(1, 0.5))
    admin.post(f"{other_runner.path}/cancel", {"reason": "It is not needed."})
    assert fetch(other_runner, bundle).status is VerificationStatus.VERIFIED
    with open_members(bundle) as members:
        record = read_record(members)
        assert record.cancelled is not None
        assert record.cancelled.reason == "It is not needed."


def test_a_run_that_is_not_known_has_no_bundle(runner: Runner) -> None:
    answer = runner.get("/api/runs/run_0000000000/bundle")
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
