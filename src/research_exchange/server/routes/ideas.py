"""Ideas: save one, say it anew, sort it, and draft a spec from it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from research_exchange.documents.json import JsonValue, canonical
from research_exchange.documents.plain import plain
from research_exchange.documents.spec import Spec
from research_exchange.drafts import idea_draft
from research_exchange.lint import lint
from research_exchange.server.dependencies import ExchangeService, Offset, Page
from research_exchange.server.errors import ApiError
from research_exchange.server.guards import WhoAsks, researcher_only
from research_exchange.server.ideas import Idea, IdeaText, context_of
from research_exchange.server.limits import MAX_NEWEST, read_control
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.described import answers
from research_exchange.server.routes.specs import spec_json
from research_exchange.server.views import moment
from research_exchange.store import SnapshotRecord

_SAID: dict[str, JsonValue] = {
    "title": "One rollout for each prompt",
    "summary": "Does one rollout do where GRPO takes eight?",
    "source_url": "https://lab.slack.com/archives/C1/p1700000000000100",
    "triage": "Worth a day.",
}
_IDEA: dict[str, JsonValue] = {
    "id": "idea_0123456789",
    "created_at": "2026-03-01T12:00:00.000Z",
    "created_by": "Ada",
    "snapshot": 1,
    **_SAID,
}
_SNAPSHOT: JsonValue = {"number": 1, "at": "2026-03-01T12:00:00.000Z", "author": "Ada", **_SAID}
_READ: JsonValue = {
    **_IDEA,
    "snapshots": [_SNAPSHOT],
    "snapshots_total": 1,
    "versions": [],
    "versions_total": 0,
}
_DRAFT: JsonValue = {
    "idea": "idea_0123456789",
    "spec": {"title": "One rollout for each prompt", "hypothesis": "Does one rollout do where GRPO takes eight?"},
    "lint": [{"level": "error", "rule": "R-030", "path": "method", "text": "Found nothing; write it down."}],
}

routes = APIRouter(tags=["ideas"])

_Title = Annotated[str, Field(min_length=1, max_length=300)]
_Text = Annotated[str, Field(max_length=20_000)]
_Link = Annotated[str, Field(max_length=2_000)]


class NewIdea(BaseModel):
    """The body of `POST /api/ideas`."""

    model_config = ConfigDict(extra="forbid")
    title: _Title
    summary: _Text | None = None
    source_url: _Link | None = None
    triage: _Text | None = None


class Revision(BaseModel):
    """The body of `POST /api/ideas/{id}/snapshots`: what is left out stays as it is, and null empties it."""

    model_config = ConfigDict(extra="forbid")
    title: _Title | None = None
    summary: _Text | None = None
    source_url: _Link | None = None
    triage: _Text | None = None


async def new_idea(request: Request) -> NewIdea:
    return await read_control(request, NewIdea)


async def revision(request: Request) -> Revision:
    return await read_control(request, Revision)


@routes.post("/ideas", status_code=201, dependencies=[Depends(researcher_only)], responses=answers(_IDEA, 201))
def add_idea(form: Annotated[NewIdea, Depends(new_idea)], who: WhoAsks, exchange: ExchangeService) -> Response:
    """Write down an idea; its first text is its first snapshot (R-001)."""
    saved = exchange.ideas.add(IdeaText(**form.model_dump()), who)
    return JSONResponse(idea_json(saved.idea), status_code=201)


@routes.get("/ideas", responses=answers({"ideas": [_IDEA], "total": 1, "next": None}))
def list_ideas(exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    """Ideas with their current text, newest first."""
    ideas, total = exchange.ideas.page(limit, offset)
    return JSONResponse(listing("ideas", [idea_json(idea) for idea in ideas], total, offset))


@routes.get("/ideas/{idea_id}", responses=answers(_READ))
def get_idea(idea_id: str, exchange: ExchangeService) -> Response:
    """What it says now, what it said before, and the versions that were made from it.

    `snapshots` and `versions` have the newest, 50 at most of each, in order of time, and `snapshots_total` and
    `versions_total` say how many there are; `GET /api/ideas/{idea_id}/snapshots` and `GET /api/specs?idea={idea_id}`
    have all, page by page.
    """
    page = exchange.ideas.idea_page(idea_id, MAX_NEWEST)
    return JSONResponse(
        {
            **idea_json(page.idea),
            "snapshots": [_snapshot_json(snapshot) for snapshot in reversed(page.snapshots)],
            "snapshots_total": page.idea.current.number,
            "versions": [spec_json(version) for version in reversed(page.versions)],
            "versions_total": page.versions_total,
        }
    )


@routes.get("/ideas/{idea_id}/snapshots", responses=answers({"snapshots": [_SNAPSHOT], "total": 1, "next": None}))
def list_snapshots(idea_id: str, exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    """Everything that an idea ever said, in order of time (R-003)."""
    snapshots, total = exchange.ideas.snapshots(idea_id, limit, offset)
    return JSONResponse(listing("snapshots", [_snapshot_json(each) for each in snapshots], total, offset))


@routes.post("/ideas/{idea_id}/snapshots", dependencies=[Depends(researcher_only)], responses=answers(_IDEA))
def revise_idea(
    idea_id: str, form: Annotated[Revision, Depends(revision)], who: WhoAsks, exchange: ExchangeService
) -> Response:
    """Change what an idea says, or note its triage: a new snapshot, and the earlier ones stay (R-003)."""
    changes = form.model_dump(exclude_unset=True)
    if "title" in changes and changes["title"] is None:
        raise ApiError(422, "An idea has a title, a line that says what it is about.")
    return JSONResponse(idea_json(exchange.ideas.revise(idea_id, changes, who)))


@routes.post("/ideas/{idea_id}/draft", dependencies=[Depends(researcher_only)], responses=answers(_DRAFT))
def draft_spec_of_idea(idea_id: str, exchange: ExchangeService) -> Response:
    """A spec to go on from, and what it still lacks; nothing is saved."""
    drafted = idea_draft(context_of(exchange.ideas.idea(idea_id).current))
    findings = lint(Spec.parse(canonical(drafted)))
    return JSONResponse({"idea": idea_id, "spec": drafted, "lint": [plain(finding) for finding in findings]})


def idea_json(idea: Idea) -> dict[str, JsonValue]:
    """An idea with its current text."""
    return {
        "id": idea.record.id,
        "created_at": moment(idea.record.created_at),
        "created_by": idea.record.author,
        "snapshot": idea.current.number,
        **_text_json(idea.current),
    }


def _snapshot_json(snapshot: SnapshotRecord) -> dict[str, JsonValue]:
    return {
        "number": snapshot.number,
        "at": moment(snapshot.at),
        "author": snapshot.author,
        **_text_json(snapshot),
    }


def _text_json(snapshot: SnapshotRecord) -> dict[str, JsonValue]:
    return {
        "title": snapshot.title,
        "summary": snapshot.summary,
        "source_url": snapshot.source_url,
        "triage": snapshot.triage,
    }
