"""What grows with a run or an idea comes in pages: nothing is left out of them, and the record keeps its size."""

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.bundles import VerificationStatus, verify
from research_exchange.server.limits import MAX_NEWEST, MAX_PAGE
from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread

MANY = MAX_PAGE + MAX_NEWEST + 7
"""More than the largest page has."""
MALFORMED = 30


def everything(caller: Caller, path: str, name: str, **asked: str) -> list[Json]:
    """All rows of a list, page after page."""
    rows: list[Json] = []
    following: int | None = 0
    while following is not None:
        page = caller.get(path, params={**asked, "offset": str(following)}).json()
        rows += page[name]
        assert page["total"] >= len(rows)
        following = page["next"]
    return rows


def progress(step: int) -> bytes:
    return b"{no update" if step == MALFORMED else scenarios.encode({"status": "running", "summary": f"Step {step:04}"})


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Caller]:
    folder = tmp_path_factory.mktemp("long")
    shutil.copy(migrated, folder)
    with in_thread(create_app(folder)) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, (folder / "admin-token").read_text().strip())


@pytest.fixture(scope="module")
def runner(admin: Caller) -> Runner:
    """The runner of a run with many updates, one of which is none."""
    runner = start_run(admin)
    for step in range(1, MANY + 1):
        assert runner.update(progress(step)).status_code == (422 if step == MALFORMED else 201)
    return runner


@pytest.mark.parametrize("limit", [None, 1 + MANY // 3, MAX_PAGE])
def test_every_update_is_on_one_page_and_one_only(runner: Runner, limit: int | None) -> None:
    listed = everything(runner, f"{runner.path}/updates", "updates", **({} if limit is None else {"limit": str(limit)}))
    assert [update["sequence"] for update in listed] == list(range(1, MANY + 1))
    assert [update["size"] for update in listed] == [len(progress(step)) for step in range(1, MANY + 1)]
    assert {update["sequence"]: update["malformed"][:8] for update in listed if "malformed" in update} == {
        MALFORMED: "Not JSON"
    }


@given(limit=st.integers(1, MAX_PAGE), offset=st.integers(0, MANY + 50))
def test_a_page_is_a_part_of_the_list(runner: Runner, limit: int, offset: int) -> None:
    page = runner.get(f"{runner.path}/updates", params={"limit": limit, "offset": offset}).json()
    expected = list(range(1, MANY + 1))[offset : offset + limit]
    assert [update["sequence"] for update in page["updates"]] == expected
    assert page["total"] == MANY
    assert page["next"] == (expected[-1] if expected and expected[-1] < MANY else None)


def test_the_record_has_the_newest_updates_and_says_how_many_there_are(runner: Runner) -> None:
    record = runner.record()
    listed = everything(runner, f"{runner.path}/updates", "updates")
    assert (record["updates"], record["updates_total"]) == (listed[-MAX_NEWEST:], MANY)
    assert record["state"]["last_update"] == MANY
    twin = runner.get(f"/runs/{runner.run}.json").json()
    assert (twin["updates"], twin["updates_total"]) == (record["updates"], MANY)


def test_a_record_does_not_grow_with_the_updates_of_its_run(admin: Caller) -> None:
    runner, sizes = start_run(admin), []
    for steps in (range(100, 170), range(170, 320)):
        for step in steps:
            runner.update(progress(step))
        sizes.append(len(runner.get(runner.path).content))
    grown = sizes[1] - sizes[0]
    assert 0 <= grown <= 5 + MAX_NEWEST, "nothing but numbers that have a digit more"


def test_a_bundle_has_every_update_however_many(admin: Caller, runner: Runner, tmp_path: Path) -> None:
    bundle = tmp_path / "run.zip"
    bundle.write_bytes(runner.get(f"{runner.path}/bundle").content)
    assert verify(bundle).status is VerificationStatus.VERIFIED
    with zipfile.ZipFile(bundle) as members:
        record = json.loads(members.read("run.json"))
    assert [update["sequence"] for update in record["updates"]] == list(range(1, MANY + 1))


def test_updates_of_an_unknown_run_and_pages_that_are_none_are_refused(admin: Caller, runner: Runner) -> None:
    assert admin.get("/api/runs/run_0000000000/updates").status_code == 404
    for asked in ({"limit": 0}, {"limit": MAX_PAGE + 1}, {"offset": -1}, {"offset": "last"}):
        assert runner.get(f"{runner.path}/updates", params=asked).status_code == 422


@pytest.fixture(scope="module")
def idea(admin: Caller) -> Json:
    """An idea that was often said anew, with a version of each of its latest days."""
    idea: Json = admin.post("/api/ideas", {"title": "Idea 1"}).json()
    for number in range(2, MAX_NEWEST + 14):
        admin.post(f"/api/ideas/{idea['id']}/snapshots", {"title": f"Idea {number}"})
        saved = admin.post("/api/specs", scenarios.spec(title=f"Version {number}"), idea=idea["id"])
        assert saved.status_code == 201, saved.text
    return idea


def test_everything_that_an_idea_said_is_on_one_page_and_one_only(admin: Caller, idea: Json) -> None:
    said = everything(admin, f"/api/ideas/{idea['id']}/snapshots", "snapshots", limit="20")
    assert [(each["number"], each["title"]) for each in said] == [
        (number, f"Idea {number}") for number in range(1, MAX_NEWEST + 14)
    ]
    assert admin.get("/api/ideas/idea_0000000000/snapshots").status_code == 404


def test_an_idea_has_its_newest_words_and_versions_and_says_how_many_there_are(admin: Caller, idea: Json) -> None:
    shown = admin.get(f"/api/ideas/{idea['id']}").json()
    said = everything(admin, f"/api/ideas/{idea['id']}/snapshots", "snapshots")
    made = everything(admin, "/api/specs", "specs", idea=idea["id"])
    assert (shown["snapshots"], shown["snapshots_total"]) == (said[-MAX_NEWEST:], MAX_NEWEST + 13)
    assert (shown["versions"], shown["versions_total"]) == (made[:MAX_NEWEST][::-1], MAX_NEWEST + 12)
    assert shown["title"] == f"Idea {MAX_NEWEST + 13}"


def test_the_page_of_an_idea_leads_to_all_that_was_said_and_made(admin: Caller, idea: Json) -> None:
    def page(asked: str = "") -> str:
        return admin.get(f"/ideas/{idea['id']}{asked}").text

    total = MAX_NEWEST + 13
    newest = page()
    assert (f'id="said-{total}"' in newest, 'id="said-13"' in newest, "Version 14<" in newest) == (True, False, True)
    assert 'href="?said=13#said"' in newest and f'href="?versions={MAX_NEWEST}#versions"' in newest
    assert 'href="?said=12#said-12"' in page(f"?versions={MAX_NEWEST}"), "the words of a version's day"
    for number in (13, 12, 1):
        earlier = page(f"?said={number}")
        assert [f'id="said-{each}"' in earlier for each in (total, 14, 13, 12, 1)] == [False, False, True, True, True]
        assert f'href="?said={total}#said"' in earlier and 'href="?said=12#said"' not in earlier
    assert f'id="said-{total}"' in page("?said=99999")
    assert "Version 2<" in page(f"?versions={MAX_NEWEST}") and "Version 14<" not in page(f"?versions={MAX_NEWEST}")
