"""Spec versions: register one, and read it back byte for byte."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.server.dependencies import ExchangeService, spec_body
from research_exchange.server.guards import researcher_only
from research_exchange.server.routes.answers import stored_bytes

routes = APIRouter()


@routes.post("/specs", dependencies=[Depends(researcher_only)])
def register_spec(raw: Annotated[bytes, Depends(spec_body)], exchange: ExchangeService) -> Response:
    registered = exchange.register_spec(raw)
    spec = registered.spec
    return JSONResponse(
        {"id": spec.id, "sha256": spec.sha256, "title": spec.title}, status_code=201 if registered.is_new else 200
    )


@routes.get("/specs/{spec_id}")
def get_spec(spec_id: str, request: Request, exchange: ExchangeService) -> Response:
    """The bytes as they were registered."""
    spec = exchange.spec(spec_id)
    return stored_bytes(request, spec.raw, spec.sha256, "application/json")
