"""`rx lint`, `rx power`, `rx brief` and `rx schema`: what a researcher sees of a spec before it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from research_exchange.cli import console
from research_exchange.schemas import SCHEMAS
from tests.research_exchange.cli.commands import Rx

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
GS1 = EXPERIMENTS / "gs1_vs_grpo" / "spec.original.json"
CORRECTED = EXPERIMENTS / "gs1_vs_grpo" / "spec.json"
CENTERING = EXPERIMENTS / "score_centering" / "spec.original.json"
ADDITION = EXPERIMENTS / "arithmetic" / "spec.json"


@pytest.mark.parametrize("command", ["lint", "power", "brief"])
def test_what_is_no_spec_is_one_sentence(rx: Rx, command: str, tmp_path: Path) -> None:
    broken = tmp_path / "spec.json"
    for path, text, sentence in [
        (tmp_path / "nowhere.json", None, "nowhere.json cannot be read: No such file or directory."),
        (tmp_path, None, "cannot be read: Is a directory."),
        (broken, '{"title": 1', "spec.json is not a spec: Not JSON at line 1"),
        (broken, '{"title": "x", "title": "y"}', 'The key "title" stands twice in one object'),
        (broken, "{}", "A spec has a title, a non-empty string; found nothing."),
    ]:
        if text is not None:
            broken.write_text(text)
        answer = rx(command, path)
        assert (answer.code, answer.out) == (2, "")
        assert sentence in answer.err
        assert answer.err.count("\n") == 1


def test_lint_sorts_what_it_finds_by_weight(rx: Rx) -> None:
    answer = rx("lint", GS1)
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith(json.loads(GS1.read_text())["title"][:60])
    assert answer.out.index("Errors:") < answer.out.index("Warnings:") < answer.out.index("Questions")
    found: dict[str, Any] = json.loads(rx("lint", GS1, "--json").out)
    assert sum(found["counts"].values()) == len(found["findings"]) > 0
    assert {"level", "rule", "path", "text"} <= found["findings"][0].keys()


def test_lint_without_an_error_ends_well(rx: Rx) -> None:
    assert rx("lint", ADDITION).code == 0


def test_power_prints_the_wins_it_takes(rx: Rx) -> None:
    answer = rx("power", CORRECTED)
    assert (answer.code, answer.err) == (0, "")
    assert "+33 net wins or more, an effect of +0.0250" in answer.out
    assert "-165 net wins or fewer, an effect of -0.1251" in answer.out
    assert "Supported and refuted can both come out." in answer.out
    (criterion,) = json.loads(rx("power", CORRECTED, "--json").out)["criteria"]
    assert (criterion["net_wins_to_support"], criterion["net_wins_to_refute"]) == (33, -165)


def test_power_of_a_rule_that_names_no_arm_is_computed_and_could_not_be_applied(rx: Rx) -> None:
    answer = rx("power", GS1)
    assert answer.code == 3
    assert "+33 net wins" in answer.out
    assert "R-14C" in answer.out


def test_a_verdict_that_cannot_come_out_is_an_error(rx: Rx) -> None:
    answer = rx("power", CORRECTED, "--items", 5)
    assert answer.code == 1
    assert "refuted cannot come out, whatever the data say" in answer.out
    assert "more than any data can show" in answer.out


def test_power_of_a_spec_without_a_rule_could_not_be_checked(rx: Rx) -> None:
    answer = rx("power", CENTERING)
    assert answer.code == 3
    assert "decision_rule" in answer.out + answer.err


def test_a_brief_is_the_very_text_and_the_same_every_time(rx: Rx) -> None:
    answer = rx("brief", GS1)
    assert answer.code == 0
    assert answer.out == rx("brief", GS1).out
    assert json.loads(GS1.read_text())["title"] in answer.out
    record = json.loads(rx("brief", GS1, "--json").out)
    assert record["brief"] == answer.out
    assert rx("brief", GS1, "--profile", "tinker").out != answer.out
    assert rx("brief", GS1, "--mode", "redo").out != answer.out
    assert "run_0123456789" in rx("brief", GS1, "--run", "run_0123456789").out


def test_a_brief_tells_of_the_idea_where_there_is_one(rx: Rx, tmp_path: Path) -> None:
    idea = tmp_path / "idea.json"
    idea.write_text(json.dumps({"title": "One rollout", "summary": "Does one rollout per prompt do?"}))
    assert "Does one rollout per prompt do?" in rx("brief", GS1, "--idea", idea).out


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--profile", "nowhere", "nowhere"),
        ("--mode", "again", "again"),
        ("--run", "run_1", "run_1"),
        ("--spec-id", "spec", "spec"),
        ("--idea", "nowhere.json", "nowhere.json cannot be read"),
    ],
)
def test_a_brief_that_cannot_be_written_is_one_sentence(rx: Rx, option: str, value: str, sentence: str) -> None:
    answer = rx("brief", GS1, option, value)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err


@pytest.mark.parametrize("command", ["lint", "power", "brief"])
def test_no_server_and_no_client_is_loaded_for_a_spec(command: str) -> None:
    code = f"""
import sys
from research_exchange.cli import main
sys.argv = ["rx", {command!r}, {str(ADDITION)!r}]
try:
    main()
except SystemExit:
    print(sorted({{"httpx", "fastapi", "sqlalchemy", "tinker"}} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_schemas_are_listed_and_printed(rx: Rx) -> None:
    listed = rx("schema")
    assert listed.code == 0
    assert all(name in listed.out for name in SCHEMAS)
    assert json.loads(rx("schema", "--json").out) == SCHEMAS
    printed = json.loads(rx("schema", "evaluation").out)
    assert printed["title"] == "evaluation"
    unknown = rx("schema", "nothing")
    assert (unknown.code, unknown.out) == (2, "")
    assert "There is no schema nothing; there are spec, update," in unknown.err


def outside(*arguments: str, stdin: bytes = b"", stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell starts it, in a locale of ASCII alone."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "COLUMNS": "80"}
    command = [sys.executable, "-m", "research_exchange.cli", *arguments]
    return subprocess.run(command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False)


def test_a_terminal_without_unicode_is_written_to() -> None:
    done = outside("lint", str(CENTERING))
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"?0.1215" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        done = outside("schema", "run_document", stdout=full.fileno())
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    assert b"No space left on device" in done.stderr


def test_a_file_without_end_is_refused(rx: Rx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "MOST_MIB", 1)
    answer = rx("lint", "/dev/zero")
    assert answer.code == 2
    assert answer.err == "rx: /dev/zero has more than 1 MiB, so it cannot be meant. Name the spec's JSON file.\n"
