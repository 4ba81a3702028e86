"""Uploading files and getting them back (R-160 to R-169, R-222)."""

import hashlib
import socket
import time
from pathlib import Path

import pytest

from research_exchange.evidence import MAX_FILE_BYTES, MAX_FILES, MAX_RUN_BYTES
from research_exchange.server import updating
from research_exchange.server.attachments import Attachments as Fetching
from research_exchange.server.attachments import FetchRefused
from research_exchange.server.exchange import Exchange
from research_exchange.server.updating import Updating
from tests.research_exchange.server.conftest import Runner


def test_a_file_is_kept_and_downloads_safely(runner: Runner) -> None:
    """R-167, R-222: never shown inside the browser, whatever it says it is."""
    content = b"<script>alert(1)</script>"
    digest = hashlib.sha256(content).hexdigest()
    uploaded = runner.upload("page.html", content, "report", sha256=digest)
    assert uploaded.status_code == 201
    assert uploaded.json() == {
        "name": "page.html",
        "status": "accepted",
        "kind": "report",
        "sha256": digest,
        "problems": [],
    }
    download = runner.get(f"{runner.path}/evidence/page.html")
    assert download.content == content
    assert download.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert download.headers["x-content-type-options"] == "nosniff"
    assert download.headers["content-type"] == "application/octet-stream"
    assert download.headers["etag"] == f'"{digest}"'
    assert "default-src 'none'" in download.headers["content-security-policy"]


def test_a_reader_who_has_the_file_is_not_sent_it_again(runner: Runner) -> None:
    runner.upload("a.txt", b"a", "log")
    etag = runner.get(f"{runner.path}/evidence/a.txt").headers["etag"]
    again = runner.http.get(f"{runner.path}/evidence/a.txt", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["naïve résumé.txt", "a b.txt", "100%.txt", 'a;b="c".txt', "x?y#z.txt", "日本.jsonl"])
def test_unusual_names_come_back(runner: Runner, name: str) -> None:
    from urllib.parse import quote, unquote

    assert runner.upload(name, b"x", "log").status_code == 201
    download = runner.get(f"{runner.path}/evidence/{quote(name, safe='')}")
    assert download.content == b"x"
    disposition = download.headers["content-disposition"]
    assert disposition.isascii()
    assert unquote(disposition.partition("''")[2]) == name


def test_the_same_name_and_bytes_again_is_no_change(runner: Runner) -> None:
    """R-164."""
    runner.upload("a.txt", b"a", "log")
    again = runner.upload("a.txt", b"a", "log")
    assert (again.status_code, again.json()["status"]) == (200, "unchanged")
    assert len(runner.record()["evidence"]) == 1


def test_a_name_never_gets_other_bytes(runner: Runner) -> None:
    """R-164: refused, the first kept."""
    runner.upload("a.txt", b"first", "log")
    second = runner.upload("a.txt", b"second", "log")
    assert second.status_code == 422
    assert "R-164" in second.json()["problems"][0]
    assert runner.get(f"{runner.path}/evidence/a.txt").content == b"first"


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a/b.py", b"x", "R-164"),
        ("../x", b"x", "R-164"),
        (".hidden", b"x", "R-164"),
        ("", b"x", "R-164"),
        (".env", b"x", "R-169"),
        ("key.txt", b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n", "R-169"),
    ],
)
def test_what_the_rules_refuse_is_refused_and_not_stored(
    runner: Runner, data: Path, name: str, content: bytes, rule: str
) -> None:
    answer = runner.upload(name, content, "other")
    assert answer.status_code == 422
    assert any(rule in problem for problem in answer.json()["problems"])
    record = runner.record()
    assert record["evidence"] == []
    assert record["refused"][0]["problems"] == answer.json()["problems"]
    assert [path for path in (data / "blobs").rglob("*") if path.is_file()] == []


def test_a_declared_hash_must_be_that_of_the_bytes(runner: Runner) -> None:
    """R-165."""
    answer = runner.upload("a.txt", b"a", "log", sha256="0" * 64)
    assert answer.status_code == 422
    assert "R-165" in answer.json()["problems"][0]


def test_ten_mebibytes_fit_and_one_byte_more_does_not(runner: Runner) -> None:
    """R-163."""
    assert runner.upload("most.bin", bytes(MAX_FILE_BYTES), "other").status_code == 201
    assert runner.upload("more.bin", bytes(MAX_FILE_BYTES + 1), "other").status_code == 413
    assert [file["size"] for file in runner.record()["evidence"]] == [MAX_FILE_BYTES]


def test_an_unknown_kind_is_kept_as_other_with_a_note(runner: Runner) -> None:
    """R-161."""
    answer = runner.upload("a.txt", b"a", "poem").json()
    assert (answer["status"], answer["kind"]) == ("accepted", "other")
    assert "R-161" in answer["problems"][0]


def test_a_name_must_be_given(runner: Runner) -> None:
    answer = runner.post(f"{runner.path}/evidence", b"x", kind="log")
    assert answer.status_code == 422
    assert "needs a name and a kind" in answer.json()["error"]


def test_an_unknown_file_is_not_found(runner: Runner) -> None:
    assert runner.get(f"{runner.path}/evidence/none.txt").status_code == 404


@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_file_that_is_no_longer_what_it_was_is_not_handed_out(runner: Runner, data: Path, harm: str) -> None:
    """R-16C."""
    digest = runner.upload("a.txt", b"as accepted", "log").json()["sha256"]
    blob = data / "blobs" / digest[:2] / digest[2:]
    if harm == "changed":
        blob.write_bytes(b"as changed!")
    else:
        blob.unlink()
    answer = runner.get(f"{runner.path}/evidence/a.txt")
    assert answer.status_code == 410
    assert "no longer what it was" in answer.json()["error"]


def test_what_is_refused_without_end_does_not_fill_the_store(runner: Runner) -> None:
    files = [{"name": ".env", "kind": "other", "content": str(n)} for n in range(400)]
    answer = runner.update({"status": "running", "evidence": {"version": 1, "files": files}})
    assert len(answer.json()["evidence"]) == 400
    assert len(runner.record()["refused"]) == 256


def test_an_address_in_an_update_is_not_visited(runner: Runner) -> None:
    """R-242: a host that answers is on no list of attachment hosts, and least of all one of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/attachments/preds.jsonl"
        entry = {"name": "preds.jsonl", "kind": "predictions", "source_url": url}
        answer = runner.update({"status": "running", "evidence": {"version": 1, "files": [entry]}})
        assert answer.status_code == 201
        with pytest.raises(BlockingIOError):
            listener.accept()
    (refused,) = answer.json()["evidence"]
    assert (refused["status"], {problem[:6] for problem in refused["problems"]}) == ("rejected", {"R-166 "})
    assert runner.record()["evidence"] == []


def test_a_file_comes_as_json(runner: Runner) -> None:
    """R-160, R-165: small text files, the way an agent without a client sends them."""
    path, headers = f"{runner.path}/evidence", {"Authorization": f"Bearer {runner.token}"}
    entry = {"name": "config.json", "kind": "effective_config", "content": "{}\n"}
    answer = runner.http.post(path, json=entry, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (201, "accepted")
    assert runner.get(f"{path}/config.json").content == b"{}\n"
    for odd in ({**entry, "sha256": "0" * 64}, {"name": "b", "kind": "log"}, ["a"], 7):
        refused = runner.http.post(path, json=odd, headers=headers)
        assert refused.status_code == 422, odd
        assert refused.json()["problems"]
    broken = runner.http.post(path, content=b"{", headers={**headers, "Content-Type": "application/json"})
    assert (broken.status_code, "cannot be read" in broken.json()["error"]) == (422, True)
    as_bytes = runner.http.post(f"{path}?name=raw.json&kind=other", json=entry, headers=headers)
    assert as_bytes.status_code == 201, "with a name in the query, JSON is a file like any other"


def test_a_file_comes_as_a_form(runner: Runner) -> None:
    path, headers = f"{runner.path}/evidence", {"Authorization": f"Bearer {runner.token}"}
    content = bytes(range(256)) * 5000
    fields = {"name": "form.bin", "kind": "other", "sha256": hashlib.sha256(content).hexdigest()}
    answer = runner.http.post(path, data=fields, files={"file": ("its own name", content)}, headers=headers)
    assert (answer.status_code, answer.json()["name"]) == (201, "form.bin")
    assert runner.get(f"{path}/form.bin").content == content
    without = runner.http.post(path, files={"other": b"x"}, params={"name": "a", "kind": "log"}, headers=headers)
    assert (without.status_code, "field 'file'" in without.json()["error"]) == (422, True)
    nameless = runner.http.post(path, files={"file": b"x"}, headers=headers)
    assert nameless.status_code == 422
    broken = runner.http.post(path, content=b"--x\r\nContent", headers={**headers, "Content-Type": FORM})
    assert broken.status_code == 422
    large = runner.http.post(path, data=fields, files={"file": bytes(MAX_FILE_BYTES + 1)}, headers=headers)
    assert large.status_code == 413
    assert [file["name"] for file in runner.record()["evidence"]] == ["form.bin"]


FORM = "multipart/form-data; boundary=x"


def test_an_upload_that_is_cut_off_leaves_nothing(runner: Runner, data: Path) -> None:
    url = runner.http.base_url
    with socket.create_connection((url.host, url.port or 80)) as connection:
        head = f"POST {runner.path}/evidence?name=a&kind=log HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n"
        connection.sendall(f"{head}Authorization: Bearer {runner.token}\r\n\r\n".encode() + bytes(1000))
        time.sleep(0.3)
    for _ in range(100):
        if not list((data / "blobs").rglob(".incoming-*")):
            break
        time.sleep(0.05)
    assert [path for path in (data / "blobs").rglob("*") if path.is_file()] == []
    assert runner.record()["evidence"] == []
    assert runner.upload("a", b"whole", "log").status_code == 201


class Attachments:
    """An attachment service that has one file, which it hands out once: its addresses end soon."""

    hosts = ("attachments.example",)

    def __init__(self) -> None:
        self.left = {"https://attachments.example/attachments/1/rows.jsonl?signature=abcdefghijk": b"rows"}

    def fetch(self, url: str, limit: int) -> bytes:
        try:
            return self.left.pop(url)
        except KeyError:
            raise FetchRefused("the attachment service answered 404") from None


def test_a_file_is_fetched_once_from_where_an_update_says_it_is(runner: Runner, exchange: Exchange, data: Path) -> None:
    """R-166: stored with its hash; the address, which may be signed, is not shown."""
    service = Attachments()
    (url,) = service.left
    exchange.updates = Updating(
        exchange.store,
        exchange.clock,
        exchange._folds,
        exchange.recording,
        Fetching(exchange.store, exchange.clock, service),
    )
    entry = {"name": "rows.jsonl", "kind": "predictions", "source_url": url}
    elsewhere = {"name": "other.jsonl", "kind": "predictions", "source_url": "https://other.example/attachments/1"}
    gone = {**entry, "name": "gone.jsonl", "source_url": "https://attachments.example/attachments/2"}
    document = {"status": "running", "evidence": {"version": 1, "files": [entry, elsewhere, gone]}}
    told = {file["name"]: file for file in runner.update(document).json()["evidence"]}
    assert {name: file["status"] for name, file in told.items()} == {
        "rows.jsonl": "accepted",
        "other.jsonl": "rejected",
        "gone.jsonl": "rejected",
    }
    assert "R-166" in told["gone.jsonl"]["problems"][0] and "404" in told["gone.jsonl"]["problems"][0]
    assert runner.get(f"{runner.path}/evidence/rows.jsonl").content == b"rows"
    again = {file["name"]: file["status"] for file in runner.update(document).json()["evidence"]}
    assert again["rows.jsonl"] == "unchanged", "a retry does not ask for what is held"
    assert "signature=abc" not in runner.get(runner.path).text


def test_bytes_are_handed_in_first_and_named_by_an_update_later(runner: Runner) -> None:
    """R-166: this Exchange's own attachments, which it reads without a request to anybody."""
    content = b"rows\n" * 1000
    handed_in = runner.post(f"{runner.path}/attachments", content, name="a b.jsonl")
    assert handed_in.status_code == 201
    url = handed_in.json()["source_url"]
    assert url == f"/attachments/{hashlib.sha256(content).hexdigest()}/a%20b.jsonl"
    assert runner.get(url).content == content
    assert runner.record()["evidence"] == [], "nothing points to it yet"
    entry = {"name": "a b.jsonl", "kind": "predictions", "source_url": url}
    gone = {"name": "c", "kind": "log", "source_url": f"/attachments/{'0' * 64}/c"}
    answer = runner.update({"status": "running", "evidence": {"version": 1, "files": [entry, gone]}})
    assert [file["status"] for file in answer.json()["evidence"]] == ["accepted", "rejected"]
    assert runner.get(f"{runner.path}/evidence/a b.jsonl").content == content
    secret = b"token: ghp_" + b"a1B2" * 9
    assert runner.post(f"{runner.path}/attachments", secret, name="b.txt").status_code == 422
    assert runner.get(f"/attachments/{hashlib.sha256(secret).hexdigest()}/b.txt").status_code == 404


def test_a_run_does_not_get_at_the_attachments_of_another_by_their_hash(runner: Runner, other_runner: Runner) -> None:
    content = b"held-out answers\n"
    url = runner.post(f"{runner.path}/attachments", content, name="a.jsonl").json()["source_url"]
    retained = hashlib.sha256(b"evidence, and never handed in").hexdigest()
    runner.upload("b.txt", b"evidence, and never handed in", "log")
    for address in (url, f"/attachments/{retained}/b.txt"):
        entry = {"name": "mine.jsonl", "kind": "predictions", "source_url": address}
        answer = other_runner.update({"status": "running", "evidence": {"version": 1, "files": [entry]}})
        (refused,) = answer.json()["evidence"]
        assert (refused["status"], "R-166" in refused["problems"][0]) == ("rejected", True)
        assert other_runner.get(address).status_code == 404
    assert other_runner.record()["evidence"] == []
    assert runner.get(url).content == content
    assert other_runner.post(f"{other_runner.path}/attachments", content, name="a.jsonl").status_code == 201
    assert other_runner.get(url).content == content, "who has the bytes may hand them in"


def test_a_run_has_no_more_attachments_than_it_could_retain(runner: Runner) -> None:
    """R-163"""
    big = b"a" * MAX_FILE_BYTES
    whole = [runner.post(f"{runner.path}/attachments", bytes([n]) + big[1:], name="a").status_code for n in range(5)]
    assert whole == [201] * (MAX_RUN_BYTES // MAX_FILE_BYTES) + [422]
    again = runner.post(f"{runner.path}/attachments", b"\0" + big[1:], name="a")
    assert again.status_code == 201, "what is there already costs nothing"


def test_a_run_has_no_more_attachments_than_files(runner: Runner) -> None:
    """R-163"""
    told = [runner.post(f"{runner.path}/attachments", f"{n}".encode(), name="a") for n in range(MAX_FILES + 1)]
    assert [answer.status_code for answer in told] == [201] * MAX_FILES + [422]
    assert f"R-163 a: expected at most {MAX_FILES} attachments in a run" in told[-1].text


def test_a_credential_in_the_name_or_the_kind_of_a_file_is_not_kept(runner: Runner, data: Path) -> None:
    """R-169, R-243"""
    secret = "ghp_" + "a1B2" * 9
    assert runner.upload(f"{secret}.txt", b"a", "log").status_code == 422
    assert runner.upload("kind.txt", b"a", secret).status_code == 201
    assert runner.post(f"{runner.path}/attachments", b"a", name=secret).status_code == 422
    files = [
        {"name": secret, "kind": "log", "content": "a"},
        {"name": "b.txt", "kind": [secret], "content": "a"},
        {"name": f"{secret} 2", "kind": "log", "content": "a", "sha256": "0" * 64},
    ]
    answer = runner.update({"status": "running", "evidence": {"version": 1, "files": files}})
    assert {file["status"] for file in answer.json()["evidence"]} == {"rejected"}
    record = runner.record()
    assert [refused["name"] for refused in record["refused"]][:2] == ["[redacted]"] * 2
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert secret.encode() not in kept


def test_what_a_full_run_is_offered_is_not_written(runner: Runner, data: Path) -> None:
    """Whoever has a run's token does not fill the disk with files that are refused."""
    for number in range(MAX_FILES):
        runner.upload(f"{number}.txt", b"kept", "log")
    kept = _blobs(data)
    assert runner.upload("one-more.txt", b"uploaded", "log").status_code == 422
    carried = {"name": "carried.txt", "kind": "log", "content": "carried"}
    answer = runner.update({"status": "running", "evidence": {"files": [carried]}}).json()
    assert "R-163" in answer["evidence"][0]["problems"][0]
    assert runner.post(f"{runner.path}/evidence", {**carried, "content": "as JSON"}).status_code == 422
    handed_in = runner.post(f"{runner.path}/attachments", b"handed in", name="a.txt")
    assert _blobs(data) == kept | {hashlib.sha256(b"handed in").hexdigest()}, handed_in.text


def test_a_file_in_an_update_that_is_not_taken_is_not_written(
    runner: Runner, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "MAX_UPDATES", 1)
    files = [{"name": "a.txt", "kind": "log", "content": "first"}]
    first = {"status": "running", "evidence": {"files": files}}
    assert runner.update(first).status_code == 201
    kept = _blobs(data)
    more = {"status": "running", "evidence": {"files": [{**files[0], "name": "b.txt", "content": "second"}]}}
    assert runner.update(more).status_code == 409
    assert _blobs(data) == kept
    assert runner.update(first).status_code == 200, "a retry needs no room"


def _blobs(data: Path) -> set[str]:
    return {path.parent.name + path.name for path in (data / "blobs").rglob("*") if path.is_file()}
