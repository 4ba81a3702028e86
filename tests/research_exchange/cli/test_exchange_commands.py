"""The commands that ask an Exchange, against a real one in a process of its own."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from research_exchange.client import Exchange, Run
from research_exchange.client.spool import Report, Spool
from tests.research_exchange.cli.commands import Rx
from tests.research_exchange.client.serving import ServedExchange, free_port, served_exchange
from tests.research_exchange.client.specs import SPEC
from tests.research_exchange.rules.support import vectors

Json = dict[str, Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedExchange]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RX_HOOK_SECRET", "signs what a hook is told")
        with served_exchange(tmp_path_factory.mktemp("served")) as exchange:
            yield exchange


@pytest.fixture
def exchange(served: ServedExchange, monkeypatch: pytest.MonkeyPatch) -> Exchange:
    """Commands of this test go to it as well."""
    for name in ("RX_TOKEN", "RX_RUN_ID", "RX_RUN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RX_URL", served.url)
    monkeypatch.setenv("RX_ADMIN_TOKEN", served.admin_token)
    return served.connect(patience=5)


@pytest.fixture
def run(exchange: Exchange) -> Run:
    return exchange.create_run(exchange.register(json.dumps(SPEC).encode()))


def said(rx: Rx, *arguments: object) -> Any:
    """What a command says with --json."""
    answer = rx(*arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_an_idea_becomes_a_version(rx: Rx, exchange: Exchange, tmp_path: Path) -> None:
    idea = said(rx, "idea", "add", "One [red]rollout", "--summary", "Does one do?", "--source", "https://example.org/1")
    assert idea["id"] in rx("ideas").out
    assert "One [red]rollout" in rx("ideas").out
    assert "Worth a day." in rx("idea", "triage", idea["id"], "Worth a day.").out
    edited = rx("idea", "edit", idea["id"], "--summary", "Does one rollout do?", "--source", "")
    assert "Summary: Does one rollout do?" in edited.out
    assert "Source:" not in edited.out
    shown = rx("idea", "show", idea["id"])
    assert shown.out.count("admin") == 3
    assert "summary, source" in shown.out

    file = tmp_path / "spec.json"
    drafted = rx("idea", "draft", idea["id"], file)
    assert drafted.out == rx("lint", file).out
    assert json.loads(file.read_text())["hypothesis"] == "Does one rollout do?"
    assert json.loads(rx("idea", "draft", idea["id"]).out) == json.loads(file.read_text())
    again = rx("idea", "draft", idea["id"], file)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "is there already" in again.err
    refused = rx("save", file, "--idea", idea["id"])
    assert refused.code == rx("lint", file).code == 1
    assert "R-030" in refused.err

    file.write_text(json.dumps({**SPEC, "title": "One rollout for each"}))
    saved = said(rx, "save", file, "--idea", idea["id"])
    assert saved["idea"] == idea["id"]
    assert rx("save", file).out.startswith(f"{saved['id']} of {idea['id']}: One rollout")
    assert [each["id"] for each in said(rx, "specs", "--idea", idea["id"])["specs"]] == [saved["id"]]
    assert saved["id"] in rx("specs").out
    assert saved["id"] in rx("idea", "show", idea["id"]).out


def test_an_edit_that_says_nothing_is_asked_wrongly(rx: Rx, exchange: Exchange) -> None:
    answer = rx("idea", "edit", "idea_0000000000")
    assert (answer.code, answer.out) == (2, "")
    assert "--triage" in answer.err


def test_a_brief_of_a_version_is_the_one_that_the_exchange_renders(rx: Rx, exchange: Exchange, run: Run) -> None:
    spec_id = exchange.register(json.dumps(SPEC).encode())
    text = exchange.brief(spec_id, run_id=run.id, profile="tinker")["brief"]
    assert rx("brief", spec_id, "--run", run.id, "--profile", "tinker").out == text
    assert run.id in text
    assert run.id not in rx("brief", spec_id).out
    assert rx("brief", "exp_0000000000").code == 2


def test_runs_are_listed_by_where_they_stand_a_page_at_a_time(rx: Rx, exchange: Exchange) -> None:
    spec_id = exchange.register(json.dumps({**SPEC, "title": "Listed"}).encode())
    runs = [exchange.create_run(spec_id) for _ in range(3)]
    runs[0].finish(outcome_reason="incomplete_execution")
    page = rx("runs", "--spec", spec_id, "--limit", 2)
    assert runs[2].id in page.out
    assert runs[0].id not in page.out
    assert "3 in all; the next: rx runs --offset 2" in page.out
    finished = rx("runs", "--spec", spec_id, "--state", "finished").out.splitlines()[1:]
    assert [(line.split()[0], *line.split()[3:]) for line in finished] == [
        (runs[0].id, "finished", "inconclusive", "Listed")
    ]
    assert said(rx, "runs", "--spec", spec_id)["total"] == 3
    unknown = rx("runs", "--state", "asleep")
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)


def test_a_listing_fits_eighty_columns_and_has_no_colour_in_a_pipe(
    rx: Rx, exchange: Exchange, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR")
    exchange.register(json.dumps({**SPEC, "title": "A title that goes on and on, " * 5}).encode())
    exchange.add_idea("An idea that goes on and on, " * 5, triage="A note that goes on and on, " * 5)
    commands = ["runs", f"show {run.id}", "specs", "ideas", "tokens", "audit", "hooks", "queue", f"logs {run.id}"]
    said = {command: rx(*command.split()) for command in [*commands, "--help", "logs --help"]}
    for command, answer in said.items():
        assert answer.code == 0, command
        assert "\x1b" not in answer.out, command
        assert max(map(len, answer.out.splitlines() or [""])) <= 80, command
    assert re.match(r"exp_\w{10}  .{16}  A title that goes on and on, .*…", said["specs"].out.splitlines()[1])


def test_what_happened_to_a_run_is_a_line_for_each_thing(rx: Rx, exchange: Exchange, run: Run) -> None:
    session = run.begin_session(runner="local")
    run.update(summary="Getting going.", feasibility={}, deviations=[])
    run.deviation("steps", original=24, effective=2, reason="Half the time.")
    run.metric(step=1, steps=2, reward=0.25, loss=0.5)
    run.metric(accuracy=0.5)
    run.evidence("script.log", "log", "Here [bold]we go.\x1b[2J\n")
    run.arm("trained", accuracy=0.5)
    run.finish(outcome_reason="incomplete_execution")
    run.end_session(session, exit_code=0, reason="The command ended by itself.")
    for follow in ([], ["-f"]):
        answer = rx("logs", run.id, *follow)
        assert answer.code == 0
        lines = [line[10:] for line in answer.out.splitlines()[1:]]
        assert lines[0] == f"Session {session} began (local)."
        assert lines[1:6] == [
            "Getting going.",
            "Update 1 reports feasibility.",
            "Deviates in steps: 24 -> 2",
            "step 1/2  reward 0.250  loss +0.5000",
            "accuracy 0.5",
        ]
        assert lines[6:] == [
            "Retained script.log (log, 22 bytes).",
            "trained: accuracy 0.500",
            "Deviates in steps: 24 -> 2",
            "Reported: succeeded, inconclusive (incomplete_execution)",
            "Recorded: inconclusive",
            f"Session {session} ended. The command ended by itself.",
        ]
    rows = [json.loads(line) for line in rx("logs", run.id, "--json").out.splitlines()]
    assert {row["event"] for row in rows} == {"session", "update", "evidence", "session_end", "outcome"}
    assert rx("logs", run.id, "--script").out == "Here [bold]we go.\ufffd[2J\n"


def test_a_run_is_shown_with_what_it_did_otherwise_its_sessions_and_what_was_refused(
    rx: Rx, exchange: Exchange, run: Run
) -> None:
    session = run.begin_session(runner="local")
    run.deviation("steps", original=24, effective=2, reason="Half [b]the time.")
    files = [{"name": ".env", "kind": "other", "content": "x"}]
    run.update(evidence={"version": 1, "files": files, "checkpoints": [], "per_arm_metrics": {}})
    run.finish(outcome_reason="incomplete_execution")
    shown = rx("show", run.id).out
    assert re.search(r"steps +24 -> 2 +recorded +Half \[b\]the time\.", shown)
    assert re.search(rf"{session} +local +\d{{4}}-\d\d-\d\d \d\d:\d\d +goes on", shown)
    assert ".env: " in shown
    again = exchange.create_run(run.record()["spec_id"], redo_of=run.id)
    exchange.cancel(again.id, "Enough.")
    words = " ".join(rx("show", again.id).out.split())
    assert f"running, a repetition of {run.id}, cancelled by admin: Enough." in words


def test_logs_follow_a_run_to_its_end(rx: Rx, exchange: Exchange, run: Run) -> None:
    ending = threading.Timer(1, run.finish, kwargs={"outcome_reason": "incomplete_execution", "summary": "Over."})
    ending.start()
    answer = rx("logs", run.id, "-f")
    ending.join()
    assert "Over." in answer.out
    assert "Recorded: inconclusive" in answer.out


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_logs_have_every_update_of_a_long_run_once(rx: Rx, exchange: Exchange, run: Run, follow: list[str]) -> None:
    """More than the record of a run has, and more than the server tells at once."""
    steps = 230
    for step in range(1, steps + 1):
        run.update(summary=f"Step {step:03}.")
    run.finish(outcome_reason="incomplete_execution", summary="Over.")
    lines = [line[10:] for line in rx("logs", run.id, *follow).out.splitlines()[1:]]
    assert [line for line in lines if line.startswith("Step")] == [f"Step {step:03}." for step in range(1, steps + 1)]
    assert lines[-1] == "Recorded: inconclusive"
    assert json.loads(rx("show", run.id, "--json").out)["updates_total"] == steps + 1


def test_an_idea_that_was_often_said_anew_says_what_else_there_is(rx: Rx, exchange: Exchange) -> None:
    idea = exchange.add_idea("Said 1")["id"]
    for number in range(2, 54):
        exchange.revise_idea(idea, title=f"Said {number}")
        spec = {**SPEC, "title": f"Made {number} of {idea}"}
        exchange.register(json.dumps(spec).encode(), idea_id=idea)
    shown = rx("idea", "show", idea).out
    assert f"3 more came before these: GET /api/ideas/{idea}/snapshots" in shown
    assert f"2 more came before these: rx specs --idea {idea}" in shown
    assert ("Made 53 of" in shown, "Made 3 of" in shown) == (True, False)
    assert "more came" not in rx("idea", "show", exchange.add_idea("Said once")["id"]).out


def test_logs_of_nothing(rx: Rx, exchange: Exchange, run: Run) -> None:
    assert rx("logs", run.id) == (0, "", "")
    answer = rx("logs", run.id, "--script")
    assert (answer.code, answer.out) == (2, "")
    assert "has no log among its evidence" in answer.err
    assert rx("logs", "run_0000000000").code == 2


def test_a_token_is_shown_once_and_revoked(rx: Rx, exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    given = rx("token", "give", "researcher", "Ada", "--days", 1)
    secret = given.out.strip()
    token_id = given.err.split()[0]
    assert token_id in rx("tokens").out
    assert secret not in rx("tokens").out + rx("tokens", "--json").out
    monkeypatch.setenv("RX_TOKEN", secret)
    assert rx("audit").code == 2, "a researcher does not read the audit log"
    assert rx("idea", "add", "Hers").code == 0
    monkeypatch.delenv("RX_TOKEN")
    assert "is revoked since" in rx("token", "revoke", token_id).out
    assert "revoked" in rx("tokens").out
    assert [entry["action"] for entry in said(rx, "audit", "--subject", token_id)["audit"]]
    assert token_id in rx("audit").out
    assert rx("token", "give", "emperor", "Ada").code == 2


def test_a_hook_is_added_listed_and_removed_and_keeps_its_deliveries(rx: Rx, exchange: Exchange) -> None:
    address = "https://example.org/told?key=as-good-as-a-password"
    hook = said(rx, "hook", "add", "webhook", address, "--secret", "RX_HOOK_SECRET", "--event", "run.ended")
    assert hook["events"] == ["run.ended"]
    assert hook["id"] in rx("hooks").out
    assert "example.org" in rx("hooks").out
    assert "password" not in rx("hooks").out
    assert rx("hook", "deliveries", hook["id"]).code == 0
    assert "is removed since" in rx("hook", "remove", hook["id"]).out
    assert said(rx, "hook", "deliveries", hook["id"])["deliveries"] == []
    assert rx("hook", "add", "pigeon").code == 2


def test_the_token_of_a_data_folder_goes_to_its_own_exchange_alone(
    rx: Rx, served: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    from research_exchange.cli.exchange import connect

    monkeypatch.delenv("RX_ADMIN_TOKEN", raising=False)
    monkeypatch.delenv("RX_TOKEN", raising=False)
    assert connect(served.url, served.data).token == served.admin_token
    assert connect(served.url.replace("127.0.0.1", "localhost"), served.data).token == served.admin_token
    for elsewhere in ("https://exchange.example.org", f"http://127.0.0.1:{free_port()}", "http://127.0.0.1:port"):
        assert connect(elsewhere, served.data).token is None
    monkeypatch.setenv("RX_TOKEN", "rxa_mine")
    assert connect("https://exchange.example.org", served.data).token == "rxa_mine"


def test_what_a_dead_script_left_is_sent_with_a_token_made_for_it(
    rx: Rx, exchange: Exchange, run: Run, tmp_path: Path
) -> None:
    script = Run(f"http://127.0.0.1:{free_port()}", run.id, run.token, spool=tmp_path, report_patience=0)
    script.metric(step=1)
    script.evidence("notes.txt", "other", "kept")
    run.evidence("run.py", "script", "print(1)")
    Spool(tmp_path / run.id).add(Report(run.id, b"print(2)", {"name": "run.py", "kind": "script", "sha256": "0" * 64}))
    answer = rx("spool", "send", tmp_path)
    assert answer.code == 1
    assert f"{run.id}: 3 reports sent." in answer.out
    assert "refused:" in answer.out
    assert [file["name"] for file in run.record()["evidence"]] == ["run.py", "notes.txt"]
    assert rx("spool", "send", tmp_path) == (0, "Nothing waits there.\n", ""), "what was refused is not sent again"
    nowhere = rx("spool", "send", tmp_path / "nowhere")
    assert (nowhere.code, nowhere.out) == (2, "")


def test_a_run_is_decided_from_its_observations_alone(rx: Rx, tmp_path: Path) -> None:
    document = json.loads(json.dumps(vectors("runs")["base"]))
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    answer = rx("decide", path)
    assert (answer.code, answer.err) == (0, "")
    assert "Decided: supported\n" in answer.out
    assert said(rx, "decide", path)["decision"]["verdict"] == "supported"
    del document["spec"]["decision_rule"]
    path.write_text(json.dumps(document))
    without = rx("decide", path)
    assert without.code == 3
    assert "no decision rule" in without.out


@pytest.mark.parametrize(
    ("words", "offered"), [("rx lo", {"logs"}), ("rx idea tr", {"triage"}), ("rx runs --st", {"--state"})]
)
def test_the_tab_key_completes_commands_and_options(words: str, offered: set[str]) -> None:
    asked = {"_RX_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = Path(sys.executable).with_name("rx")
    done = subprocess.run([command], env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("command", ["show", "logs", "resume", "redo", "cancel", "export", "idea show", "token revoke"])
@pytest.mark.parametrize("given", ["", "../specs", "run_12"])
def test_what_is_no_id_is_said_to_be_none_and_asks_for_nothing(rx: Rx, command: str, given: str) -> None:
    answer = rx(*command.split(), given)
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(rf"rx: '?{re.escape(given)}'? is no .*\n", answer.err), answer.err


def test_each_problem_of_a_refused_spec_stands_on_a_line(rx: Rx, exchange: Exchange, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text('{"title": "Nothing but a title"}')
    answer = rx("save", str(spec))
    sentence, *problems = answer.err.splitlines()
    assert answer.code == 1
    assert "--legacy" in sentence
    assert problems
    assert all(problem.startswith("  error R-") for problem in problems)


@pytest.mark.parametrize("token", ["rxa_one\r", "rxa_one\nrxa_two", "\N{LEFT DOUBLE QUOTATION MARK}rxa_one"])
def test_a_token_that_can_be_none_is_told_at_once(
    rx: Rx, exchange: Exchange, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("RX_TOKEN", token)
    answer = rx("runs")
    assert (answer.code, answer.err.count("\n")) == (3, 1)
    assert "a character that no token has" in answer.err
    assert "rxa_one" not in answer.err
