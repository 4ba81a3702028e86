"""A run in one file, for whoever wants to verify it elsewhere."""

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from research_exchange.bundles import BundleTooLarge
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.errors import ApiError
from research_exchange.server.exporting import exported_run

routes = APIRouter(tags=["runs"])


@routes.get("/runs/{run_id}/bundle")
def get_bundle(run_id: str, exchange: ExchangeService) -> Response:
    """Everything that the run's judgment is made from, as a zip file; the same run is the same bytes."""
    try:
        chunks = exported_run(exchange, run_id)
    except BundleTooLarge as trouble:
        raise ApiError(409, f"{trouble} Fetch its updates and files one by one.") from None
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.zip"', "Cache-Control": "no-cache"}
    return StreamingResponse(chunks, media_type="application/zip", headers=headers)
