"""Runs: create one, list them, and read one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from research_exchange.server.dependencies import ExchangeService, NewRun, Offset, Page, new_run
from research_exchange.server.guards import researcher_only
from research_exchange.server.views import run_json, run_summary_json

routes = APIRouter()


@routes.post("/runs", dependencies=[Depends(researcher_only)])
def create_run(form: Annotated[NewRun, Depends(new_run)], exchange: ExchangeService) -> Response:
    created = exchange.create_run(form.spec_id, form.launch_mode)
    return JSONResponse({"id": created.id, "spec_id": created.spec_id, "token": created.token}, status_code=201)


@routes.get("/runs")
def list_runs(exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    with exchange.store.reading() as reader:
        runs, total = reader.runs(limit, offset), reader.count_runs()
    return JSONResponse({"runs": [run_summary_json(run) for run in runs], "total": total})


@routes.get("/runs/{run_id}")
def get_run(run_id: str, exchange: ExchangeService) -> Response:
    return JSONResponse(run_json(exchange.view(run_id)))
