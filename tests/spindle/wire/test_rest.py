"""Runs and checkpoints over REST, as plain HTTP: what `RestClient` and the `tinker` command ask."""

import asyncio
import io
import tarfile
import time
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from spindle.control import Service
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import SaveOptions
from spindle.wire import create_app
from tests.spindle.control.saving import INFO, path, save, start_run
from tests.spindle.engine.recording import RecordingBackend
from tests.spindle.wire.calling import ADDRESS, Caller

KEYS = {"alice": "tml-the-key-of-alice", "bob": "tml-the-key-of-bob"}
RUN, OTHER = "a:train:0", "b:train:0"
MINE = f"/training_runs/{RUN}/checkpoints"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service.build(RecordingBackend(), tmp_path)
    for run, owner in ((RUN, "alice"), (OTHER, "bob")):
        start_run(service.catalogue, run, owner, "papers")
        for kind in Kind:
            staged = service.catalogue.stage(path("one", kind, run), INFO, SaveOptions(user_metadata={"epoch": "1"}))
            for name in ("adapter_config.json", "adapter_model.safetensors", "state.json"):
                (staged.directory / name).write_text(f"{name} of {kind}")
            service.catalogue.publish(staged)
    yield service
    service.stop(5)


def client(service: Service, owner: str | None = "alice", **headers: str) -> Caller:
    keyed = {} if owner is None else {"X-API-Key": KEYS[owner]}
    return Caller(create_app(service, KEYS), **keyed, **headers)


@pytest.fixture
def rest(service: Service) -> Caller:
    return client(service)


def names(reply: httpx.Response) -> list[str]:
    return [row["checkpoint_id"] for row in reply.json()["checkpoints"]]


# ---- listing


def test_a_run_is_shown_with_its_last_checkpoints_and_times_that_know_their_zone(rest: Caller) -> None:
    (run,) = rest.get("/training_runs", params={"access_scope": "owned"}).json()["training_runs"]
    assert rest.get(f"/training_runs/{RUN}").json() == run
    assert run["training_run_id"] == RUN
    assert (run["base_model"], run["model_owner"], run["is_lora"], run["lora_rank"]) == ("org/base", "alice", True, 4)
    assert run["corrupted"] is False
    assert run["user_metadata"] == {"renderer_name": "chat"}
    assert run["last_checkpoint"]["checkpoint_id"] == "weights/one"
    assert run["last_sampler_checkpoint"]["tinker_path"] == f"tinker://{RUN}/sampler_weights/one"
    assert datetime.fromisoformat(run["last_request_time"]).tzinfo is not None
    assert datetime.fromisoformat(run["last_checkpoint"]["time"]).tzinfo is not None


def test_runs_come_newest_first_in_pages_and_by_project(service: Service, rest: Caller) -> None:
    for number in range(1, 6):
        start_run(service.catalogue, f"a:train:{number}", "alice")
    page = rest.get("/training_runs", params={"limit": 2, "offset": 1}).json()
    assert [run["training_run_id"] for run in page["training_runs"]] == ["a:train:4", "a:train:3"]
    assert page["cursor"] == {"offset": 1, "limit": 2, "total_count": 6}
    projected = rest.get("/training_runs", params={"project_id": "papers"}).json()
    assert [run["training_run_id"] for run in projected["training_runs"]] == [RUN]
    assert rest.get("/training_runs", params={"limit": -1}).status_code == 400
    assert rest.get("/training_runs/none").status_code == 404
    assert rest.get(f"/training_runs/{OTHER}").status_code == 404


def test_checkpoints_are_shown_as_clients_read_them(rest: Caller) -> None:
    rows = rest.get(MINE).json()["checkpoints"]
    assert [(row["checkpoint_id"], row["checkpoint_type"]) for row in rows] == [
        ("external_weights/one", "external"),
        ("sampler_weights/one", "sampler"),
        ("weights/one", "training"),
    ]
    assert rows == rest.get("/checkpoints").json()["checkpoints"]
    row = rows[-1]
    assert row["tinker_path"] == f"tinker://{RUN}/weights/one"
    assert row["size_bytes"] > 0
    assert (row["public"], row["expires_at"], row["user_metadata"]) == (False, None, {"epoch": "1"})
    assert datetime.fromisoformat(row["time"]).tzinfo is not None
    assert rest.get(f"/training_runs/{OTHER}/checkpoints").status_code == 404


@pytest.mark.parametrize(("version", "shown"), [("0.27.3", 2), ("0.18.0", 2), ("0.28.0", 3), ("0.38.0", 3), ("odd", 3)])
def test_clients_that_do_not_know_exports_are_not_shown_any(service: Service, version: str, shown: int) -> None:
    old = client(service, **{"X-Stainless-Package-Version": version})
    assert len(names(old.get(MINE))) == shown
    listed = old.get("/checkpoints")
    assert len(names(listed)) == listed.json()["cursor"]["total_count"] == shown


def test_thousands_of_checkpoints_are_paged_a_thousand_at_a_time(service: Service, rest: Caller) -> None:
    first = service.catalogue.find(path("one", run=RUN))
    for number in range(2497):
        directory = first.directory.with_name(f"n{number}")
        service.catalogue.index.put(replace(first, path=path(f"n{number}", run=RUN), directory=directory))
    begun = time.process_time()
    pages = [rest.get("/checkpoints", params={"limit": 5000, "offset": offset}) for offset in (0, 1000, 2000)]
    assert time.process_time() - begun < 1.5
    assert [len(names(page)) for page in pages] == [1000, 1000, 500]
    assert pages[0].json()["cursor"] == {"offset": 0, "limit": 1000, "total_count": 2500}
    assert names(pages[0])[0] == "weights/n2496"
    assert len({name for page in pages for name in names(page)}) == 2500


# ---- changing


def test_a_deleted_checkpoint_is_gone_and_deleting_again_is_404(rest: Caller) -> None:
    assert rest.delete(f"{MINE}/weights/one").status_code == 204
    again = rest.delete(f"{MINE}/weights/one")
    assert again.status_code == 404
    assert again.json()["detail"].startswith("There is no checkpoint")
    assert names(rest.get(MINE)) == ["external_weights/one", "sampler_weights/one"]
    assert rest.get(f"/training_runs/{RUN}").json()["last_checkpoint"] is None


@pytest.mark.parametrize("address", ["weights/none", "nonsense/one", "weights/.hidden", "weights/%2e%2e"])
def test_whatever_is_not_there_is_404(rest: Caller, address: str) -> None:
    where = f"{MINE}/{address}"
    replies = [
        rest.delete(where),
        rest.put(f"{where}/ttl", json={"ttl_seconds": 3600}),
        rest.post(f"{where}/publish"),
        rest.delete(f"{where}/publish"),
        rest.get(f"{where}/archive"),
    ]
    assert {reply.status_code for reply in replies} == {404}


def test_a_checkpoint_is_given_a_time_or_kept(rest: Caller) -> None:
    where = f"{MINE}/weights/one"
    assert rest.put(f"{where}/ttl", json={"ttl_seconds": 7200}).status_code == 204
    end = datetime.fromisoformat(rest.get(MINE).json()["checkpoints"][-1]["expires_at"])
    assert timedelta(seconds=7100) < end - datetime.now(UTC) <= timedelta(seconds=7200)
    for seconds in (3599, 11 * 366 * 86400):
        reply = rest.put(f"{where}/ttl", json={"ttl_seconds": seconds})
        assert reply.status_code == 400
        assert f"ttl_seconds is {seconds}" in reply.json()["detail"]
    assert rest.put(f"{where}/ttl", json={}).status_code == 400
    assert rest.put(f"{where}/ttl", json={"ttl_seconds": None}).status_code == 204
    assert rest.get(MINE).json()["checkpoints"][-1]["expires_at"] is None


def test_a_run_of_another_owner_shows_its_newest_public_checkpoint(service: Service, rest: Caller) -> None:
    bob = client(service, "bob")
    rest.post(f"{MINE}/weights/one/publish")
    save(service.catalogue, path("secret", run=RUN), "private")
    shared = bob.get("/training_runs", params={"access_scope": "accessible"}).json()["training_runs"]
    for run in (bob.get(f"/training_runs/{RUN}").json(), shared[1]):
        assert run["last_checkpoint"]["checkpoint_id"] == "weights/one"
        assert run["last_sampler_checkpoint"] is None
    assert rest.get(f"/training_runs/{RUN}").json()["last_checkpoint"]["checkpoint_id"] == "weights/secret"


def test_publishing_twice_is_as_good_as_once_and_lets_others_read(service: Service, rest: Caller) -> None:
    bob, where = client(service, "bob"), f"{MINE}/weights/one"
    assert bob.get(MINE).status_code == 404
    for _ in range(2):
        assert rest.post(f"{where}/publish").status_code == 204
    assert names(bob.get(MINE)) == ["weights/one"]
    assert bob.get(MINE).json()["checkpoints"][0]["public"] is True
    shared = bob.get("/training_runs", params={"access_scope": "accessible"}).json()["training_runs"]
    assert [run["training_run_id"] for run in shared] == [OTHER, RUN]
    for change in (
        bob.delete(where),
        bob.delete(f"{where}/publish"),
        bob.put(f"{where}/ttl", json={"ttl_seconds": None}),
    ):
        assert change.status_code == 404
    for _ in range(2):
        assert rest.delete(f"{where}/publish").status_code == 204
    assert bob.get(MINE).status_code == 404


@pytest.mark.parametrize("kind", Kind)
def test_weights_info_tells_what_a_checkpoint_fits(service: Service, rest: Caller, kind: Kind) -> None:
    info = rest.post("/weights_info", json={"tinker_path": f"tinker://{RUN}/{kind}/one"}).json()
    assert (info["base_model"], info["is_lora"], info["lora_rank"]) == ("org/base", True, 4)
    assert (info["train_attn"], info["train_mlp"], info["train_unembed"]) == (True, True, True)
    assert info["optimizer_config"]["type"] == "adamw"
    for address in (f"tinker://{RUN}/{kind}/none", f"tinker://{OTHER}/{kind}/one"):
        assert rest.post("/weights_info", json={"tinker_path": address}).status_code == 404
    assert rest.post("/weights_info", json={"tinker_path": "/etc/passwd"}).status_code == 400


# ---- copying


def test_a_copy_goes_to_a_run_of_its_own_and_one_key_makes_one(rest: Caller) -> None:
    body = {"source_path": f"tinker://{RUN}/sampler_weights/one", "destination_project_id": "archive"}
    once, retry, other = (
        rest.post("/copy_weights", json=body, headers={"X-Idempotency-Key": key}).json()["tinker_path"]
        for key in ("k1", "k1", "k2")
    )
    assert once == retry != other
    copied = CheckpointPath.parse(once)
    assert (copied.kind, copied.name) == (Kind.SAMPLER, "one")
    run = rest.get(f"/training_runs/{copied.run}").json()
    assert (run["model_owner"], run["user_metadata"]) == ("alice", {"renderer_name": "chat"})
    archived = rest.get("/training_runs", params={"project_id": "archive"}).json()["training_runs"]
    assert {row["training_run_id"] for row in archived} == {copied.run, CheckpointPath.parse(other).run}


def test_a_copy_can_take_a_place_in_a_session(service: Service, rest: Caller) -> None:
    session = service.sessions.create("alice").session_id
    body = {"source_path": f"tinker://{RUN}/weights/one", "session_id": session, "model_seq_id": 3, "ttl_seconds": 3600}
    reply = rest.post("/copy_weights", json=body)
    assert reply.json() == {"tinker_path": f"tinker://{session}:train:3/weights/one"}
    assert service.catalogue.find(path("one", run=f"{session}:train:3")).expires_at is not None
    assert client(service, "bob").post("/copy_weights", json=body).status_code == 404


def test_a_copy_that_makes_no_sense_is_refused(service: Service, rest: Caller) -> None:
    source = f"tinker://{RUN}/weights/one"
    assert rest.post("/copy_weights", json={"source_path": source}).status_code == 400
    gone = rest.post("/copy_weights", json={"source_path": source, "session_id": "never", "model_seq_id": 0})
    assert gone.status_code == 410
    foreign = {"source_path": f"tinker://{OTHER}/weights/one", "destination_project_id": "p"}
    assert rest.post("/copy_weights", json=foreign).status_code == 404
    brief = {"source_path": source, "destination_project_id": "p", "ttl_seconds": 5}
    assert "ttl_seconds is 5" in rest.post("/copy_weights", json=brief).json()["detail"]
    assert [run.run_id for run in service.library.runs("alice")] == [RUN]


# ---- downloading


def links(rest: Caller) -> dict[str, str]:
    urls: dict[str, str] = rest.get(f"{MINE}/external_weights/one/external_weights_urls").json()["urls"]
    return urls


def test_an_export_has_a_link_per_file_that_needs_no_key(service: Service, rest: Caller) -> None:
    reply = rest.get(f"{MINE}/external_weights/one/external_weights_urls").json()
    assert sorted(reply["urls"]) == ["adapter_config.json", "adapter_model.safetensors", "state.json"]
    assert datetime.fromisoformat(reply["expires"]) - datetime.now(UTC) > timedelta(minutes=50)
    anybody = client(service, None)
    for name, url in reply["urls"].items():
        assert url.startswith(f"{ADDRESS}/api/v1/downloads/")
        got = anybody.get(url)
        assert got.text == f"{name} of external_weights"
        assert got.headers["content-length"] == str(len(got.content))
        part = anybody.get(url, headers={"Range": "bytes=8-13"})
        assert (part.status_code, part.text) == (206, got.text[8:14])
        assert anybody("HEAD", url).status_code == 200
    assert anybody.get(f"{MINE}/external_weights/one/external_weights_urls").status_code == 401


def test_links_begin_with_the_public_address_where_there_is_one(service: Service) -> None:
    public = replace(service, public_url="https://far.example/spindle/")
    for url in links(client(public)).values():
        assert url.startswith("https://far.example/spindle/api/v1/downloads/")


def test_a_link_opens_one_file_for_its_time_and_nothing_else(
    service: Service, rest: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    anybody, url = client(service, None), links(rest)["adapter_config.json"]
    query = urlsplit(url).query
    secret = path("one", run=OTHER)
    for target in (
        url.replace("adapter_config.json", "state.json"),
        url.replace("adapter_config.json", "../../weights/one.json"),
        url.replace("adapter_config.json", "..%2F..%2Fweights%2Fone.json"),
        url.replace("external_weights", "weights"),
        url.replace("signature=", "signature=0"),
        url.partition("?")[0],
        f"/downloads/{secret.run}/{secret.kind}/{secret.name}/archive.tar?{query}",
    ):
        refused = anybody.get(target)
        assert refused.status_code in (403, 404), target
        assert refused.json()["detail"].endswith((".", "Not Found"))
    monkeypatch.setattr(service.links, "_now", lambda: datetime.now(UTC) + timedelta(hours=1))
    expired = anybody.get(url)
    assert expired.status_code == 403
    assert "expired: ask for a new one" in expired.json()["detail"]


def test_what_is_signed_but_not_there_is_404(service: Service, rest: Caller) -> None:
    anybody, url = client(service, None), links(rest)["state.json"]
    prefix = f"/api/v1/downloads/{RUN}/external_weights/one/files"
    for name in ("none", "../one.json", "/etc/passwd"):
        target = service.links.sign(f"{prefix}/{name}").target
        assert anybody.get(f"{ADDRESS}{target}").status_code == 404
    rest.delete(f"{MINE}/external_weights/one")
    gone = anybody.get(url)
    assert gone.status_code == 404
    assert "expired or was deleted" in gone.json()["detail"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_download_that_runs_is_finished_though_its_checkpoint_is_deleted(service: Service, whole: bool) -> None:
    large = save(service.catalogue, path("large", Kind.EXTERNAL, RUN), "x" * 3_000_000)
    where = f"/api/v1/downloads/{RUN}/external_weights/large"
    signed = urlsplit(service.links.sign(f"{where}/archive.tar" if whole else f"{where}/files/state").target)
    scope = {"type": "http", "method": "GET", "path": signed.path, "query_string": signed.query.encode()}
    received = bytearray()

    async def receive() -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            if not received:
                await asyncio.to_thread(service.catalogue.delete, large.path)
                assert large.directory.exists()
            received.extend(message["body"])

    asyncio.run(create_app(service, KEYS)(scope | {"headers": [(b"host", b"here")]}, receive, send))
    assert received.count(b"x") >= 3_000_000
    assert not large.directory.exists()


def test_only_exports_have_links_and_only_for_their_owner(service: Service, rest: Caller) -> None:
    refused = rest.get(f"{MINE}/weights/one/external_weights_urls")
    assert refused.status_code == 400
    assert "save_weights_external" in refused.json()["detail"]
    assert client(service, "bob").get(f"{MINE}/external_weights/one/external_weights_urls").status_code == 404


@pytest.mark.parametrize("kind", [Kind.TRAINING, Kind.SAMPLER])
def test_older_clients_are_sent_to_an_archive(service: Service, rest: Caller, kind: Kind) -> None:
    reply = rest.get(f"{MINE}/{kind}/one/archive", headers={"accept": "application/json"})
    assert reply.status_code == 302
    assert parsedate_to_datetime(reply.headers["expires"]) > datetime.now(UTC) + timedelta(minutes=50)
    got = client(service, None).get(reply.headers["location"])
    assert got.headers["content-length"] == str(len(got.content))
    with tarfile.open(fileobj=io.BytesIO(got.content), mode="r") as tar:
        expected = {"adapter_config.json", "adapter_model.safetensors", "checkpoint_complete"}
        assert set(tar.getnames()) == expected | ({"state.json"} if kind is Kind.SAMPLER else set())
        member = tar.extractfile("adapter_config.json")
        assert member is not None
        assert member.read().decode() == f"adapter_config.json of {kind}"
