"""`rx export`, `rx verify`, `rx report`, `rx compare` and `rx diff`, on a real Exchange and without one."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from research_exchange.bundles import VerificationStatus, verify
from research_exchange.web import create_app
from tests.research_exchange.cli.commands import Rx
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread


@dataclass(frozen=True)
class Runs:
    """An Exchange with a run, a redo of it, and a run of another spec."""

    url: str
    first: str
    redo: str
    other: str
    spec: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    data = tmp_path_factory.mktemp("exchange")
    with in_thread(create_app(data)) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        admin = Caller(http, (data / "admin-token").read_text().strip())
        first, redo = start_run(admin), start_run(admin, launch_mode="redo")
        other = start_run(admin, scenarios.spec(title="Another [red]title[/]"))
        for runner, wins in ((first, 150), (redo, 148), (other, 150)):
            assert runner.finish(wins).status_code == 201
        yield Runs(url, first.run, redo.run, other.run, first.record()["spec_id"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_is_exported_and_verified_elsewhere(rx: Rx, runs: Runs, tmp_path: Path) -> None:
    exported = rx("export", runs.first, "--exchange", runs.url)
    assert (exported.code, exported.err) == (0, "")
    assert f"{runs.first} is in {runs.first}.zip" in exported.out
    assert [path.name for path in tmp_path.iterdir()] == [f"{runs.first}.zip"]
    verified = rx("verify", f"{runs.first}.zip")
    assert (verified.code, verified.err) == (0, "")
    assert "Verified: every byte is as it was exported" in verified.out
    report = json.loads(rx("verify", f"{runs.first}.zip", "--json").out)
    assert (report["status"], report["run"]) == ("verified", runs.first)
    again = json.loads(rx("export", runs.first, "again.zip", "--exchange", runs.url, "--json").out)
    assert again == {"run": runs.first, "file": "again.zip", "size": again["size"], "sha256": report["sha256"]}


def test_an_export_goes_to_stdout(runs: Runs) -> None:
    command = [sys.executable, "-m", "research_exchange.cli", "export", runs.first, "-", "--exchange", runs.url]
    Path("piped.zip").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    assert verify(Path("piped.zip")).status is VerificationStatus.VERIFIED


def test_what_was_changed_is_named_with_what_to_do(rx: Rx, runs: Runs) -> None:
    rx("export", runs.first, "run.zip", "--exchange", runs.url)
    with zipfile.ZipFile("run.zip") as archive:
        archive.extractall("unpacked")
    assert rx("verify", "unpacked").code == 0
    update = Path("unpacked/updates/000001.json")
    update.write_bytes(update.read_bytes().replace(b"0.4", b"0.5"))
    changed = rx("verify", "unpacked")
    assert changed.code == 1
    assert "updates/000001.json" in changed.out
    assert "Where the judgments differ" in changed.out
    refused = rx("compare", "unpacked", "run.zip")
    assert (refused.code, "not as it was exported" in refused.err) == (2, True)


def test_what_is_no_bundle_is_asked_wrongly(rx: Rx, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    for path in ("notes.txt", "missing.zip", "."):
        answer = rx("verify", path)
        assert (answer.code, "is not a bundle" in answer.err) == (2, True)
    assert rx("compare", "notes.txt", "notes.txt").code == 2


def test_an_unknown_run_and_a_place_that_cannot_be_written_are_said(rx: Rx, runs: Runs) -> None:
    unknown = rx("export", "run_0000000000", "--exchange", runs.url)
    assert (unknown.code, "No run 'run_0000000000' is known here" in unknown.err) == (2, True)
    nowhere = rx("export", runs.first, "no/such/folder.zip", "--exchange", runs.url)
    assert (nowhere.code, "cannot be written: No such file or directory" in nowhere.err) == (2, True)


def files_in(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_a_report_on_a_run_is_the_one_on_its_bundle_packed_or_unpacked(rx: Rx, runs: Runs) -> None:
    asked = rx("report", runs.first, "--exchange", runs.url)
    assert (asked.code, asked.err) == (0, "")
    assert f"{runs.first}, supported: report.html, report.md and 1 figure are in" in " ".join(asked.out.split())
    found = files_in(f"{runs.first}-report")
    assert sorted(found) == ["interval-01.svg", "report.html", "report.md"]
    rx("export", runs.first, "run.zip", "--exchange", runs.url)
    with zipfile.ZipFile("run.zip") as archive:
        archive.extractall("unpacked")
    for form in ("run.zip", "unpacked"):
        written = json.loads(rx("report", form, "--out", "deep/in/here", "--json").out)
        assert (written["run"], written["verdict"], written["folder"]) == (runs.first, "supported", "deep/in/here")
        assert files_in("deep/in/here") == found
        assert {each["name"]: each["sha256"] for each in written["files"]} == {
            name: sha256(content).hexdigest() for name, content in found.items()
        }


def test_what_cannot_be_reported_on_is_one_sentence(rx: Rx, runs: Runs, tmp_path: Path) -> None:
    rx("export", runs.first, "run.zip", "--exchange", runs.url)
    whole = Path("run.zip").read_bytes()
    Path("changed.zip").write_bytes(whole.replace(b"Both arms were scored.", b"Both arms were shared."))
    Path("cut.zip").write_bytes(whole[:-400])
    Path("notes.txt").write_text("notes")
    Path("file").write_text("in the way")
    said = {
        ("run_0000000000", "--exchange", runs.url): "No run 'run_0000000000' is known here",
        ("missing.zip",): "missing.zip is not a bundle: there is nothing. Name a run",
        ("notes.txt",): "notes.txt is not a bundle: it does not start as a zip file",
        ("changed.zip",): "changed.zip is not as it was exported; `rx verify changed.zip` says where.",
        ("cut.zip",): "`rx verify cut.zip` says",
        ("run.zip", "--out", "file/in"): "file/in cannot be made: Not a directory.",
    }
    for arguments, sentence in said.items():
        answer = rx("report", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert sentence in answer.err and answer.err.count("\n") == 1
    assert not list(tmp_path.glob("*-report"))


def test_a_redo_is_compared_with_what_it_repeats(rx: Rx, runs: Runs) -> None:
    answer = rx("compare", runs.first, runs.redo, "--exchange", runs.url)
    assert (answer.code, answer.err) == (0, "")
    shown = " ".join(answer.out.split())
    assert "The result came out again: both runs are recorded as supported." in shown
    assert "398 of 400 values of single items are equal." in shown
    assert "primary_gain" in shown
    rx("export", runs.first, "first.zip", "--exchange", runs.url)
    offline = json.loads(rx("compare", "first.zip", "first.zip", "--json").out)
    assert (offline["standing"], offline["rows"]) == ("agree", "same_bytes")


def test_the_run_in_a_bundle_is_judged_and_checked_like_any_run_in_files(rx: Rx, runs: Runs) -> None:
    rx("export", runs.first, "run.zip", "--exchange", runs.url)
    with zipfile.ZipFile("run.zip") as archive:
        archive.extractall("unpacked")
        exported = json.loads(archive.read("judgment.json"))
    for form in ("run.zip", "unpacked"):
        judged = rx("judge", form, "--json")
        assert (judged.code, judged.err) == (0, "")
        assert json.loads(judged.out) == exported
    assert rx("check", "run.zip").code == 0
    Path("unpacked/spec.json").write_text("{}")
    changed = rx("judge", "unpacked")
    assert (changed.code, "rx verify unpacked" in changed.err) == (2, True)


def test_runs_of_different_specs_are_not_said_to_agree(rx: Rx, runs: Runs) -> None:
    answer = rx("compare", runs.first, runs.other, "--exchange", runs.url)
    assert answer.code == 3
    assert "neither confirms or contradicts the other" in " ".join(answer.out.split())
    assert "Another [red]title[/]" in answer.out


def test_two_versions_of_a_spec_are_compared_place_by_place(rx: Rx, runs: Runs, tmp_path: Path) -> None:
    spec: dict[str, Any] = scenarios.spec()
    (tmp_path / "same.json").write_text(json.dumps(spec, indent=4))
    same = rx("diff", runs.spec, "same.json", "--exchange", runs.url)
    assert (same.code, same.out.strip()) == (0, "They say the same.")
    spec["decision_rule"]["criteria"][0]["margin"] = 0.3
    (tmp_path / "other.json").write_text(json.dumps(spec))
    other = rx("diff", "same.json", "other.json")
    assert other.code == 1
    assert 'decision_rule.criteria["primary_gain"].margin' in other.out
    assert [each["kind"] for each in json.loads(rx("diff", "same.json", "other.json", "--json").out)] == ["changed"]
    assert rx("diff", "same.json", "missing.json").code == 2
