"""`rx check` and `rx judge` on runs in files."""

import json
import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from research_exchange.cli.intake import take_in
from research_exchange.documents.run_document import RunDocument
from research_exchange.judgment import judge
from tests.research_exchange.cli.commands import Rx
from tests.research_exchange.rules.honest_run import honest_run
from tests.research_exchange.rules.support import patched, vectors

BASE: dict[str, Any] = vectors("runs")["base"]
Written = Callable[[Any], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def _written(document: Any) -> Path:
        path = tmp_path / "run.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    return _written


def lay_out(folder: Path, document: dict[str, Any]) -> Path:
    """The same run as a folder."""
    (folder / "updates").mkdir(parents=True)
    (folder / "evidence").mkdir()
    (folder / "spec.json").write_text(json.dumps(document["spec"], ensure_ascii=False))
    for number, update in enumerate(document["updates"], start=1):
        (folder / "updates" / f"{number:03}.json").write_text(json.dumps(update, ensure_ascii=False))
    records = []
    for file in document["evidence"]:
        (folder / "evidence" / file["name"]).write_text(file["content"])
        records.append({key: value for key, value in file.items() if key != "content"})
    (folder / "evidence.json").write_text(json.dumps(records))
    return folder


def test_a_sound_run_is_judged(rx: Rx, written: Written) -> None:
    answer = rx("judge", written(BASE))
    assert (answer.code, answer.err) == (0, "")
    assert "Recorded: supported (recomputed)." in answer.out
    assert "activation_gate" in answer.out
    assert "declared" in answer.out


def test_a_document_and_a_folder_give_the_same_judgment_as_the_library(
    rx: Rx, written: Written, tmp_path: Path
) -> None:
    document = RunDocument.parse(json.dumps(BASE).encode())
    expected = judge(document.spec, document.updates, document.evidence).to_json()
    for path in (written(BASE), lay_out(tmp_path / "folder", BASE)):
        answer = rx("judge", path, "--json")
        assert (answer.code, answer.err) == (0, "")
        assert json.loads(answer.out) == json.loads(json.dumps(expected))


def test_a_changed_byte_in_a_folder_is_lost_evidence(rx: Rx, tmp_path: Path) -> None:
    """R-16C"""
    document = RunDocument.parse(json.dumps(BASE).encode())
    folder = lay_out(tmp_path / "folder", BASE)
    records = json.loads((folder / "evidence.json").read_text())
    for record, file in zip(records, document.evidence, strict=True):
        record["sha256"] = file.sha256
    (folder / "evidence.json").write_text(json.dumps(records))
    assert rx("judge", folder).code == 0
    stored = folder / "evidence" / "predictions.jsonl"
    stored.write_text(stored.read_text().replace("q0", "q9", 1))
    answer = rx("judge", folder)
    assert answer.code == 1
    assert "without the hash they were accepted with" in " ".join(answer.out.split())
    stored.unlink()
    assert rx("judge", folder).code == 1


def test_a_run_that_passes_every_gate_is_checked_well(rx: Rx, written: Written) -> None:
    answer = rx("check", written(BASE))
    assert (answer.code, answer.err) == (0, "")
    assert "Checked: all that applies passes." in answer.out


def test_the_projection_is_shown_as_the_pilot_measured_it(rx: Rx, written: Written) -> None:
    answer = rx("check", written(honest_run()))
    assert answer.code == 0
    assert "fits: 71:59 minutes and 1 GPU-hours projected" in answer.out
    recorded = rx("judge", written(honest_run()))
    assert (recorded.code, "setup 2:00, training 40:00" in recorded.out) == (0, True)
    assert "Feasibility" not in rx("check", written(BASE)).out


def test_what_is_wrong_stands_with_its_rule_and_what_to_do(rx: Rx, written: Written) -> None:
    broken = [{"op": "replace", "path": "/updates/0/activation_calibration/values/group_size", "value": 2}]
    answer = rx("check", written(patched(BASE, broken)))
    assert answer.code == 1
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["R-123", "activation_calibration.values.group_size"] in lines
    assert ["expected", "a", "finite", "number,", "at", "least", "1", "and", "at", "most", "1"] in lines
    assert ["found", "2"] in lines
    assert json.loads(rx("check", written(patched(BASE, broken)), "--json").out)["status"] == "failed"


def test_what_is_missing_while_a_run_goes_on_could_not_be_checked(rx: Rx, written: Written) -> None:
    answer = rx("check", written({**BASE, "updates": BASE["updates"][:1]}))
    assert answer.code == 3
    assert "Not all could be checked" in answer.out
    assert "reported as running." in answer.out


def test_a_file_that_would_be_refused_is_left_out_and_said(rx: Rx, written: Written) -> None:
    secret = {"name": "run.sh", "kind": "script", "content": "export TINKER_API_KEY=tml-a1B2c3D4e5F6g7H8i9J0k1L2\n"}
    path = written({**BASE, "evidence": [*BASE["evidence"], secret]})
    answer = rx("check", path)
    assert answer.code == 1
    assert "R-169" in answer.out
    assert "a1B2" not in answer.out
    judged = rx("judge", path, "--json")
    assert (judged.code, "run.sh is left out: R-169" in judged.err) == (0, True)


def test_a_file_inside_an_update_counts(rx: Rx, written: Written) -> None:
    (file,) = (file for file in BASE["evidence"] if file["name"] == "predictions.jsonl")
    inline = {key: file[key] for key in ("name", "kind", "content")}
    document = {**BASE, "evidence": [other for other in BASE["evidence"] if other is not file]}
    assert rx("judge", written(document)).code == 1
    within = [{"op": "add", "path": "/updates/2/evidence", "value": {"version": 1, "files": [inline]}}]
    assert rx("judge", written(patched(document, within))).code == 0


def test_of_two_files_with_one_name_the_first_that_came_is_kept(rx: Rx, written: Written) -> None:
    """R-164"""
    late = {"name": "notes.txt", "kind": "report", "content": "late", "update": 3}
    early = {"name": "notes.txt", "kind": "report", "content": "early"}
    within = [{"op": "add", "path": "/updates/0/evidence", "value": {"version": 1, "files": [early]}}]
    document = {**patched(BASE, within), "evidence": [*BASE["evidence"], late]}
    intake = take_in(RunDocument.parse(json.dumps(document).encode()))
    (kept,) = (file for file in intake.retained if file.name == "notes.txt")
    assert kept.read() == b"early"
    (refused,) = json.loads(rx("check", written(document), "--json").out)["refused"]
    assert (refused["name"], refused["problems"][0]["rule"]) == ("notes.txt", "R-164")


def test_what_the_exchange_cannot_take_is_refused_and_an_unknown_kind_is_other() -> None:
    """R-161, R-166"""
    url = {"name": "rows.jsonl", "kind": "metrics", "source_url": "https://host/attachments/rows.jsonl"}
    odd = {"name": "notes.txt", "kind": "musings", "content": "x"}
    update = {"status": "running", "evidence": {"version": 1, "files": [url, odd]}}
    document = RunDocument.parse(json.dumps({"spec": BASE["spec"], "updates": [update]}).encode())
    intake = take_in(document)
    assert [(file.name, file.kind, file.update) for file in intake.retained] == [("notes.txt", "other", 1)]
    ((refused, problem),) = [(each.name, problem) for each in intake.refused for problem in each.admission.problems]
    assert (refused, problem.rule) == ("rows.jsonl", "R-166")


def test_bytes_and_strings_stand_for_themselves(rx: Rx, written: Written) -> None:
    encoded = [
        {key: value for key, value in file.items() if key != "content"}
        | {"content_base64": b64encode(file["content"].encode()).decode()}
        for file in BASE["evidence"]
    ]
    document = {
        "spec": json.dumps(BASE["spec"]),
        "updates": ["not JSON", *(json.dumps(update) for update in BASE["updates"])],
        "evidence": [file | ({"update": file["update"] + 1} if "update" in file else {}) for file in encoded],
    }
    answer = rx("judge", written(document))
    assert answer.code == 0
    assert "R-06A" in answer.out
    assert rx("check", written(document)).code == 1


REFUSED = [case for case in vectors("run_documents")["cases"] if "refused" in case]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_what_is_no_run_document_is_one_sentence(rx: Rx, written: Written, case: Any) -> None:
    for command in ("check", "judge"):
        answer = rx(command, written(case["document"]))
        assert (answer.code, answer.out) == (2, "")
        assert case["refused"] in answer.err
        assert answer.err.count("\n") == 1


@pytest.mark.parametrize("name", [" ", "", "../x", 7, None])
def test_a_file_of_an_update_without_a_usable_name_is_refused(rx: Rx, written: Written, name: Any) -> None:
    files = [{"name": name, "kind": " ", "content": "x"}, 7, {}]
    odd = [{"op": "add", "path": "/updates/0/evidence", "value": {"version": 1, "files": files}}]
    answer = rx("check", written(patched(BASE, odd)))
    assert answer.code == 1
    assert "Refused as evidence, and left out" in answer.out


def test_updates_in_files_are_counted_not_spelled(rx: Rx, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "folder", BASE)
    for number, path in enumerate(sorted((folder / "updates").iterdir())):
        path.rename(folder / "updates" / f"{9 + number}.json")
    (folder / "evidence" / ".hidden").write_text("not evidence")
    assert rx("judge", folder).code == 0


def test_a_folder_that_is_incomplete_is_one_sentence(rx: Rx, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "folder", BASE)
    mistakes = [
        ("evidence/extra.txt", "x", 'does not list "extra.txt"'),
        ("evidence.json", "{}", "is a list of records; found an empty object."),
        ("evidence.json", "nonsense", "cannot be used: Not JSON"),
        ("evidence.json", "[1]", "[0] is an object; found 1."),
        ("evidence.json", '[{"name": "../spec.json", "kind": "log"}]', "name is a plain file name"),
        ("evidence.json", '[{"name": "a"}]', "needs a name and a kind"),
        ("spec.json", "{}", "is not a spec: A spec has a title"),
    ]
    for name, text, sentence in mistakes:
        (folder / name).write_text(text)
        answer = rx("judge", folder)
        assert answer.code == 2
        assert sentence in answer.err
        assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    "name", ["updates/000.json", "evidence/pipe", "evidence.json", "spec.json", "ended.txt", "updates/folder.json"]
)
def test_a_pipe_in_a_folder_is_refused_and_not_waited_for(rx: Rx, tmp_path: Path, name: str) -> None:
    folder = lay_out(tmp_path / "folder", BASE)
    if name == "evidence/pipe":
        (folder / "evidence.json").write_text('[{"name": "pipe", "kind": "log"}]')
    (folder / name).unlink(missing_ok=True)
    if "folder" in name:
        (folder / name).mkdir()
    else:
        os.mkfifo(folder / name)
    answer = rx("judge", folder)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"{name} is not a plain file, so nothing is read from it" in answer.err


def test_a_run_that_ended_early_says_why(rx: Rx, tmp_path: Path) -> None:
    """R-067"""
    folder = lay_out(tmp_path / "folder", {**BASE, "updates": BASE["updates"][:2]})
    assert "The run has not ended." in rx("judge", folder).out
    (folder / "ended.txt").write_text("The machine went away.\n")
    answer = rx("judge", folder)
    assert answer.code == 1
    assert "The machine went away." in " ".join(answer.out.split())


def test_what_is_neither_a_run_nor_a_file(rx: Rx) -> None:
    answer = rx("judge", "nowhere.json")
    assert (answer.code, answer.out) == (2, "")
    assert "nowhere.json is neither a run's id" in answer.err
    assert "nowhere.json cannot be read: No such file or directory." in rx("check", "nowhere.json").err


def test_in_a_narrow_terminal_names_stay_whole(rx: Rx, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    document = patched(BASE, [])
    checks = document["spec"]["activation_gate"]["checks"]
    checks.append({"metric": "a_metric_with_a_name_as_long_as_people_like_to_give_them", "min": 1})
    document["evidence"] = [{"name": name, "kind": "log", "content": "x"} for name in ("prod.env", "a/b")]
    document["spec"]["title"] = "And so on. " * 1000
    answer = rx("check", written(document))
    lines = answer.out.splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert len(lines) < 150, "a title without end is cut"
    assert any(line.startswith("evaluation_comparability  ") for line in lines)
    assert "as_long_as_people_like_to_give_them" in "".join(answer.out.split())
    assert '"prod.env", name' in answer.out
    assert '"a/b", name' in answer.out


@pytest.mark.parametrize(
    ("command", "document", "code"),
    [
        ("lint", '{"title": "t"}', 1),
        ("lint", "{", 2),
        ("power", '{"title": "t"}', 3),
        ("power", "[]", 2),
        ("check", BASE, 0),
        ("check", patched(BASE, [{"op": "remove", "path": "/updates/0/activation_calibration"}]), 1),
        ("check", patched(BASE, [{"op": "remove", "path": "/updates/2"}]), 3),
        ("check", "{", 2),
        ("judge", BASE, 0),
        ("judge", "{", 2),
    ],
)
def test_a_validator_ends_with_what_it_found_and_prints_it_as_json(
    rx: Rx, written: Written, command: str, document: Any, code: int
) -> None:
    """R-234, R-10E: 0 it is well, 1 it is not, 2 it was asked wrongly, 3 it could not be checked."""
    path = written(document)
    answer = rx(command, path, "--json")
    assert (answer.code, rx(command, path).code) == (code, code)
    if code == 2:
        assert (answer.out, answer.err.count("\n")) == ("", 1)
    else:
        assert isinstance(json.loads(answer.out), dict)
