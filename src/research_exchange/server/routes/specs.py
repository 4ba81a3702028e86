"""Spec versions: register one, and read it back byte for byte, linted, weighed, compared, and as a brief."""

from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.documents.plain import plain
from research_exchange.server.briefing import DEFAULT_PROFILE
from research_exchange.server.dependencies import ExchangeService, Offset, Page, spec_body
from research_exchange.server.guards import WhoAsks, researcher_only
from research_exchange.server.routes.answers import listing, stored_bytes
from research_exchange.server.routes.described import answers, answers_bytes
from research_exchange.server.views import moment
from research_exchange.store import SpecRecord

_ID = "exp_0123456789"
_FINDING: JsonValue = {"level": "warning", "rule": "R-037", "path": "eval.n_examples", "text": "State it."}
_SPEC: dict[str, JsonValue] = {
    "id": _ID,
    "sha256": "…",
    "title": "Trained against untrained adapter on addition",
    "created_at": "2026-03-01T12:00:00.000Z",
    "size": 1800,
    "parent": "exp_fedcba9876",
    "idea": "idea_0123456789",
    "idea_snapshot": 1,
}
_CHANGE: JsonValue = {
    "kind": "changed",
    "path": "eval.n_examples",
    "before": 200,
    "after": 400,
    "text": "eval.n_examples: 200 became 400",
}
_POWER: JsonValue = {
    "spec_id": _ID,
    "method": "paired_hoeffding",
    "unit": "fixed_checkpoint_items",
    "alpha": 0.05,
    "multiplicity": "none",
    "n": 200,
    "n_from": "eval.n_examples",
    "assumed_discordance": 0.16,
    "can_support": True,
    "can_refute": True,
    "criteria": [],
    "problems": [],
    "notes": [],
}
_BRIEF: JsonValue = {"spec_id": _ID, "run": None, "profile": "spindle", "sha256": "…", "brief": "# Trained against…"}

routes = APIRouter(tags=["specs"])

Items = Annotated[int | None, Query(ge=1, le=10_000_000)]


@routes.post(
    "/specs",
    status_code=201,
    dependencies=[Depends(researcher_only)],
    responses=answers({**_SPEC, "lint": [_FINDING]}, 201, "Saved; 200 where these very bytes had been saved before."),
)
def register_spec(
    raw: Annotated[bytes, Depends(spec_body)],
    who: WhoAsks,
    exchange: ExchangeService,
    idea: str | None = None,
    parent: str | None = None,
    legacy: bool = False,
) -> Response:
    """Save a version, of an idea and made from another version where these are named. Lint errors refuse a new one."""
    registered = exchange.versions.register(raw, who, idea_id=idea, parent=parent, legacy=legacy)
    return JSONResponse(
        {**spec_json(registered.spec), "lint": [plain(finding) for finding in registered.findings]},
        status_code=201 if registered.is_new else 200,
    )


@routes.get("/specs", responses=answers({"specs": [_SPEC], "total": 1, "next": None}))
def list_specs(exchange: ExchangeService, idea: str | None = None, limit: Page = 50, offset: Offset = 0) -> Response:
    """Saved versions, newest first; of one idea where it is named."""
    specs, total = exchange.versions.page(limit, offset, idea)
    return JSONResponse(listing("specs", [spec_json(spec) for spec in specs], total, offset))


@routes.get("/specs/{spec_id}", responses=answers_bytes("application/json", "The spec, byte for byte."))
def get_spec(spec_id: str, request: Request, exchange: ExchangeService) -> Response:
    """The bytes as they were registered."""
    spec = exchange.versions.spec(spec_id)
    return stored_bytes(request, spec.raw, spec.sha256, "application/json")


@routes.get("/specs/{spec_id}/about", responses=answers(_SPEC))
def get_spec_about(spec_id: str, exchange: ExchangeService) -> Response:
    """When it was saved, from which idea and which version, and its hash."""
    return JSONResponse(spec_json(exchange.versions.spec(spec_id)))


@routes.get("/specs/{spec_id}/lint", responses=answers({"spec_id": _ID, "findings": [_FINDING]}))
def get_lint(spec_id: str, exchange: ExchangeService) -> Response:
    """What a reviewer would say of it before anybody spends an hour on it."""
    return JSONResponse({"spec_id": spec_id, "findings": [plain(found) for found in exchange.versions.lint(spec_id)]})


@routes.get("/specs/{spec_id}/power", responses=answers(_POWER))
def get_power(spec_id: str, exchange: ExchangeService, items: Items = None) -> Response:
    """What its decision rule can tell: the wins it takes, and how probable each verdict is."""
    return JSONResponse({"spec_id": spec_id, **exchange.versions.power(spec_id, items).to_json()})


@routes.get("/specs/{spec_id}/diff", responses=answers({"before": _ID, "after": _ID, "changes": [_CHANGE]}))
def get_difference(spec_id: str, exchange: ExchangeService, against: str | None = None) -> Response:
    """What it says otherwise than the version `against`, by default its parent."""
    difference = exchange.versions.difference(spec_id, against)
    changes: list[JsonValue] = [change.to_json() for change in difference.changes]
    return JSONResponse({"before": difference.before.id, "after": difference.after.id, "changes": changes})


@routes.get("/specs/{spec_id}/brief", responses=answers(_BRIEF))
def get_brief(
    spec_id: str, exchange: ExchangeService, run: str | None = None, profile: str = DEFAULT_PROFILE
) -> Response:
    """The brief that a runner gets, in Markdown; for a run where one is named."""
    text = exchange.versions.brief(spec_id, profile, run)
    return JSONResponse(
        {
            "spec_id": spec_id,
            "run": run,
            "profile": profile,
            "sha256": sha256(text.encode()).hexdigest(),
            "brief": text,
        }
    )


def spec_json(spec: SpecRecord) -> dict[str, JsonValue]:
    """What is known of a version besides its bytes."""
    return {
        "id": spec.id,
        "sha256": spec.sha256,
        "title": spec.title,
        "created_at": moment(spec.created_at),
        "size": len(spec.raw),
        "parent": spec.parent,
        "idea": spec.idea_id,
        "idea_snapshot": spec.idea_snapshot,
    }
