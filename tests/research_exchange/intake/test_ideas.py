"""Ideas are said anew and never rewritten, and a version keeps the context that it was saved with (R-001 to R-003)."""

import pytest

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json

IDEA = {
    "title": "Train on harder sums",
    "summary": "Sums with carries may teach more.",
    "source_url": "https://a.example/p1",
}


def add(admin: Caller, **changes: str) -> Json:
    answer = admin.post("/api/ideas", {**IDEA, **changes})
    assert answer.status_code == 201, answer.text
    idea: Json = answer.json()
    return idea


def test_an_idea_is_kept_as_it_was_said(admin: Caller) -> None:
    idea = add(admin)
    assert idea["id"].startswith("idea_") and len(idea["id"]) == 15
    shown = admin.get(f"/api/ideas/{idea['id']}").json()
    assert {name: shown[name] for name in IDEA} == IDEA
    assert [said["number"] for said in shown["snapshots"]] == [1]
    assert (shown["triage"], shown["versions"]) == (None, [])


def test_what_is_said_anew_stands_after_what_was_said_before(admin: Caller) -> None:
    path = f"/api/ideas/{add(admin)['id']}"
    admin.post(f"{path}/snapshots", {"triage": "Worth a day."})
    admin.post(f"{path}/snapshots", {"title": "Train on carries", "summary": None})
    shown = admin.get(path).json()
    said = [(each["title"], each["summary"], each["triage"]) for each in shown["snapshots"]]
    assert said == [
        (IDEA["title"], IDEA["summary"], None),
        (IDEA["title"], IDEA["summary"], "Worth a day."),
        ("Train on carries", None, "Worth a day."),
    ]
    assert (shown["title"], shown["snapshot"]) == ("Train on carries", 3)


def test_saying_the_same_again_adds_nothing(admin: Caller) -> None:
    path = f"/api/ideas/{add(admin)['id']}"
    assert admin.post(f"{path}/snapshots", {"title": IDEA["title"]}).json()["snapshot"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"title": ""},
        {"title": "  "},
        {"title": "x" * 301},
        {"title": None},
        {"source_url": "javascript:alert(1)"},
        {"source_url": "https://user:word@a.example/"},
        {"source_url": "https://[broken"},
        {"summary": "the key is ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
        {"stranger": "x"},
        {"triage": 3},
    ],
)
def test_what_is_no_idea_is_refused(shared_admin: Caller, change: Json) -> None:
    path = f"/api/ideas/{add(shared_admin)['id']}"
    before = shared_admin.get("/api/ideas").json()["total"]
    refused = shared_admin.post("/api/ideas", {**IDEA, **change})
    assert refused.status_code == 422
    assert "ghp_" not in refused.text
    assert shared_admin.post(f"{path}/snapshots", change).status_code == 422
    assert shared_admin.get("/api/ideas").json()["total"] == before
    assert shared_admin.get(path).json()["snapshot"] == 1


def test_the_list_goes_on_from_page_to_page(admin: Caller) -> None:
    made = [add(admin, title=f"Idea {number}")["id"] for number in range(5)]
    first = admin.get("/api/ideas", params={"limit": 3}).json()
    rest = admin.get("/api/ideas", params={"limit": 3, "offset": first["next"]}).json()
    assert [idea["id"] for idea in first["ideas"] + rest["ideas"]] == made[::-1]
    assert (first["total"], first["next"], rest["next"]) == (5, 3, None)


def test_a_version_keeps_the_words_that_the_idea_had(admin: Caller) -> None:
    """R-003: later edits of the idea change no brief."""
    idea = add(admin)
    version = admin.post("/api/specs", scenarios.spec(), idea=idea["id"]).json()
    before = admin.get(f"/api/specs/{version['id']}/brief").json()["brief"]
    admin.post(f"/api/ideas/{idea['id']}/snapshots", {"title": "Something else", "triage": "Later."})
    next_version = admin.post("/api/specs", scenarios.spec(title="Edited"), parent=version["id"]).json()
    assert (version["idea"], version["idea_snapshot"], version["parent"]) == (idea["id"], 1, None)
    assert (next_version["idea"], next_version["idea_snapshot"], next_version["parent"]) == (
        idea["id"],
        2,
        version["id"],
    )
    assert admin.get(f"/api/specs/{version['id']}/brief").json()["brief"] == before
    assert IDEA["title"] in before
    assert "Something else" in admin.get(f"/api/specs/{next_version['id']}/brief").json()["brief"]
    listed = admin.get(f"/api/ideas/{idea['id']}").json()["versions"]
    assert [each["id"] for each in listed] == [version["id"], next_version["id"]]
    assert admin.get("/api/specs", params={"idea": idea["id"]}).json()["total"] == 2


def test_a_draft_lints_to_the_list_of_what_it_lacks(admin: Caller) -> None:
    drafted = admin.post(f"/api/ideas/{add(admin)['id']}/draft").json()
    spec = drafted["spec"]
    assert (spec["title"], spec["hypothesis"]) == (IDEA["title"], IDEA["summary"])
    lacking = {finding["path"] for finding in drafted["lint"] if finding["level"] == "error"}
    assert {"method", "base_model", "success_criterion", "budget.gpu_hours"} <= lacking
    assert "hypothesis" not in lacking
    assert admin.get("/api/specs").json()["total"] == 0
    assert admin.post("/api/specs", spec).status_code == 422
    completed = {**spec, **{name: value for name, value in scenarios.spec().items() if name != "title"}}
    assert admin.post("/api/specs", completed, idea=drafted["idea"]).status_code == 201


def test_unknown_ideas_are_not_found(admin: Caller) -> None:
    for answer in (
        admin.get("/api/ideas/idea_0000000000"),
        admin.post("/api/ideas/idea_0000000000/snapshots", {"title": "x"}),
        admin.post("/api/ideas/idea_0000000000/draft"),
        admin.post("/api/specs", scenarios.spec(), idea="idea_0000000000"),
        admin.post("/api/specs", scenarios.spec(), parent="exp_0000000000"),
    ):
        assert answer.status_code == 404
        assert "_0000000000" in answer.json()["error"]
