"""Posting updates: kept whatever they say, numbered, safe to send again."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from research_exchange.server import updating
from research_exchange.server.limits import MAX_UPDATE_BYTES
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Runner


def test_updates_are_numbered_and_come_back_byte_for_byte(runner: Runner) -> None:
    """R-007."""
    posted = [scenarios.encode(scenarios.progress(step, step / 10)) for step in range(1, 6)]
    answers = [runner.update(raw) for raw in posted]
    assert [answer.status_code for answer in answers] == [201] * 5
    assert [answer.json()["sequence"] for answer in answers] == [1, 2, 3, 4, 5]
    assert [answer.json()["sha256"] for answer in answers] == [hashlib.sha256(raw).hexdigest() for raw in posted]
    assert [runner.get(f"{runner.path}/updates/{n}").content for n in range(1, 6)] == posted
    listed = runner.record()["updates"]
    assert [(update["sequence"], update["size"]) for update in listed] == list(enumerate(map(len, posted), 1))
    assert all(update["received_at"].endswith("Z") for update in listed)


def test_sending_the_last_update_again_changes_nothing(runner: Runner) -> None:
    first = runner.update(scenarios.progress(1, 0.5))
    again = runner.update(scenarios.progress(1, 0.5))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert len(runner.record()["updates"]) == 1


def test_an_earlier_update_sent_again_is_a_new_one(runner: Runner) -> None:
    runner.update(scenarios.progress(1, 0.5))
    runner.update(scenarios.progress(2, 0.5))
    assert runner.update(scenarios.progress(1, 0.5)).json()["sequence"] == 3


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "Not JSON"),
        (b'{"status": "running"', "Not JSON"),
        (b'{"metrics": {"loss": NaN}}', "NaN"),
        (b'{"status": "running", "status": "failed"}', "stands twice"),
        (b"[" * 65 + b"]" * 65, "nested deeper"),
        (b"\xff\xfe", "not valid UTF-8"),
        (b'"supported"', "An update is a JSON object"),
    ],
)
def test_what_cannot_be_read_is_stored_and_said_to_be_so(runner: Runner, raw: bytes, says: str) -> None:
    """R-06A: stored with its number, folds to nothing, answered 422."""
    runner.update(scenarios.progress(1, 0.5))
    before = runner.record()["state"]
    answer = runner.update(raw)
    assert answer.status_code == 422
    assert answer.json()["sequence"] == 2
    assert says in answer.json()["error"]
    assert runner.get(f"{runner.path}/updates/2").content == raw
    record = runner.record()
    assert says in record["updates"][1]["malformed"]
    assert record["state"]["metrics"] == before["metrics"]
    assert runner.update(raw).json()["sequence"] == 2


def test_an_update_over_the_cap_is_refused_before_it_is_parsed(runner: Runner) -> None:
    """R-240."""
    answer = runner.update(b"[" * (MAX_UPDATE_BYTES + 1))
    assert answer.status_code == 413
    assert "50,331,648 bytes" in answer.json()["error"]
    assert runner.record()["updates"] == []


def test_the_answer_names_what_is_odd_about_an_update(runner: Runner) -> None:
    """R-061: flagged, not rejected."""
    answer = runner.update({"status": "running", "verdict": "supported"})
    assert answer.status_code == 201
    assert any("R-061" in flag for flag in answer.json()["flags"])
    assert runner.update(scenarios.progress(1, 0.5)).json()["flags"] == []


def test_metrics_keep_their_history(runner: Runner) -> None:
    """R-065."""
    for step in (1, 2, 3):
        runner.update(scenarios.progress(step, step / 4))
    runner.update({"status": "running", "metrics": {"other": 1}})
    reward = runner.record()["state"]["metrics"]["reward"]
    assert [entry["value"] for entry in reward["history"]] == [0.25, 0.5, 0.75]


def test_an_update_carries_files(runner: Runner) -> None:
    """R-160: each admitted or refused by itself, and the update stands."""
    files = [
        {"name": "run.py", "kind": "script", "content": "print(1)\n"},
        {"name": "../x", "kind": "script", "content": "print(2)\n"},
        {"name": ".env", "kind": "other", "content": "A=1"},
        {"name": "both.txt", "kind": "log", "content": "a", "source_url": "https://example.com/attachments/a"},
    ]
    answer = runner.update({"status": "running", "evidence": {"version": 1, "files": files}})
    assert answer.status_code == 201
    told = {file["name"]: file for file in answer.json()["evidence"]}
    assert {name: file["status"] for name, file in told.items()} == {
        "run.py": "accepted",
        "../x": "rejected",
        ".env": "rejected",
        "both.txt": "rejected",
    }
    assert "R-164" in told["../x"]["problems"][0]
    assert "R-169" in told[".env"]["problems"][0]
    record = runner.record()
    assert [(file["name"], file["kind"], file["update"]) for file in record["evidence"]] == [("run.py", "script", 1)]
    assert [refusal["name"] for refusal in record["refused"]] == ["../x", ".env", "both.txt"]
    assert runner.get(f"{runner.path}/evidence/run.py").content == b"print(1)\n"


def test_files_of_an_update_that_is_sent_again_are_kept_and_refused_once(runner: Runner) -> None:
    files = [{"name": "a.txt", "kind": "log", "content": "a"}, {"name": ".env", "kind": "log", "content": "b"}]
    document = {"status": "running", "evidence": {"version": 1, "files": files}}
    runner.update(document)
    again = runner.update(document)
    assert [file["status"] for file in again.json()["evidence"]] == ["unchanged", "rejected"]
    assert (len(runner.record()["evidence"]), len(runner.record()["refused"])) == (1, 1)


def test_an_update_belongs_to_the_session_that_is_open(runner: Runner) -> None:
    runner.update(scenarios.progress(1, 0.5))
    session = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.update(scenarios.progress(2, 0.5))
    assert [update["session"] for update in runner.record()["updates"]] == [None, session]


def test_an_unknown_update_is_not_found(runner: Runner) -> None:
    assert runner.get(f"{runner.path}/updates/1").status_code == 404


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**30])
def test_a_number_that_no_update_can_have_is_refused(runner: Runner, number: int) -> None:
    assert runner.get(f"{runner.path}/updates/{number}").status_code == 422


def test_a_key_makes_a_retry_harmless_however_late_it_comes(runner: Runner) -> None:
    """A runner that lost the answer sends again, after other updates."""

    def post(number: int, key: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {runner.token}", "Idempotency-Key": key}
        return runner.http.post(f"{runner.path}/updates", json=scenarios.progress(number, 0.5), headers=headers)

    first, second, again = post(1, "a"), post(2, "b"), post(1, "a")
    assert [answer.status_code for answer in (first, second, again)] == [201, 201, 200]
    assert again.json() == first.json()
    other_bytes = post(3, "a")
    assert (other_bytes.status_code, other_bytes.json()["sequence"]) == (201, 3), "an update is not lost over its key"
    assert "Idempotency-Key came with other bytes before" in other_bytes.json()["flags"][0]
    assert post(1, "c").json()["sequence"] == 4, "the same bytes under another key were measured again"


def test_two_who_report_at_once_get_numbers_of_their_own(runner: Runner) -> None:
    """Updates are in order of receipt, whoever sent them; a retry that overtakes nothing stays one update."""
    with ThreadPoolExecutor(8) as pool:
        documents = [scenarios.progress(step, 0.5) for step in range(40)]
        answers = list(pool.map(runner.update, documents))
    assert sorted(answer.json()["sequence"] for answer in answers) == list(range(1, 41))
    for answer, document in zip(answers, documents, strict=True):
        assert runner.get(f"{runner.path}/updates/{answer.json()['sequence']}").json() == document
    state = runner.record()["state"]
    assert len(state["metrics"]["step"]["history"]) == 40


def test_what_comes_after_the_final_update_was_overtaken_by_it_and_changes_nothing(runner: Runner) -> None:
    """R-070: updates out of order."""
    runner.finish(150)
    late = runner.update(scenarios.calibration(reward=0.0))
    assert "R-070" in late.json()["flags"][0]
    assert runner.record()["recorded"]["recorded_verdict"] == "supported"


def test_an_update_may_name_the_session_that_it_belongs_to(runner: Runner) -> None:
    """What an earlier session had left in its spool is not the later one's."""
    first, second = runner.begin(), runner.begin()
    runner.post(f"{runner.path}/updates", scenarios.progress(1, 0.5), session=first)
    runner.post(f"{runner.path}/updates", scenarios.progress(2, 0.5))
    odd = runner.post(f"{runner.path}/updates", scenarios.progress(3, 0.5), session="ses_0000000000")
    assert [update["session"] for update in runner.record()["updates"]] == [first, second, second]
    assert "names a session that this run does not have" in odd.json()["flags"][0]


SECRET = "ghp_" + "a1B2" * 9


def test_an_update_with_a_credential_is_kept_without_it(runner: Runner, data: Path) -> None:
    """R-06A, R-243: nothing measured is lost, and the secret is nowhere in the store."""
    document = {**scenarios.progress(1, 0.5), "note": f"cloned with {SECRET} from elsewhere"}
    answers = [runner.update(document) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200], "sent again it is the same update"
    assert "a GitHub token in line 1 was replaced by [redacted]" in answers[0].json()["flags"][0]
    kept = runner.get(f"{runner.path}/updates/1").json()
    assert kept == {**document, "note": "cloned with [redacted] from elsewhere"}
    record = runner.record()
    assert record["state"]["metrics"]["reward"]["value"] == 0.5
    (remark,) = record["refused"]
    assert (remark["name"], remark["update"]) == ("update 1", 1)
    assert "R-243" in remark["problems"][0]
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())


def test_a_file_with_a_credential_is_refused_and_its_update_kept_without_it(runner: Runner, data: Path) -> None:
    """R-169: what is taken out of the update does not make its file admissible."""
    files = [{"name": "run.py", "kind": "script", "content": f'TOKEN = "{SECRET}"\nprint(1)\n'}]
    answer = runner.update({"status": "running", "evidence": {"version": 1, "files": files}})
    (file,) = answer.json()["evidence"]
    assert (file["status"], file["problems"][0][:5]) == ("rejected", "R-169")
    record = runner.record()
    assert (record["evidence"], [each["name"] for each in record["refused"]]) == ([], ["run.py", "update 1"])
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())


def test_a_run_has_so_many_updates_and_no_more_but_one_that_ends_it(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "MAX_UPDATES", 3)
    told = [runner.update(scenarios.progress(step, 0.5)) for step in (1, 2, 3, 3, 4)]
    assert [answer.status_code for answer in told] == [201, 201, 201, 200, 409]
    assert told[-1].json()["error"].startswith(f"R-240: {runner.run} has 3 updates")
    assert told[-1].json()["rule"] == "R-240"
    assert runner.update({"status": "failed", "summary": "It took too long."}).status_code == 201
    assert len(runner.record()["updates"]) == 4


def test_the_updates_of_a_run_have_so_many_bytes_and_no_more_but_small_ones(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "MAX_BYTES_OF_UPDATES", 250_000)
    large = [{"status": "running", "summary": f"{number}" * 100_000} for number in range(3)]
    assert [runner.update(document).status_code for document in large] == [201, 201, 409]
    assert runner.update(scenarios.progress(1, 0.5)).status_code == 201
