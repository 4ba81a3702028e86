"""Whether the Exchange answers."""

from importlib.metadata import version

from fastapi import APIRouter

routes = APIRouter()


@routes.get("/health")
def get_health() -> dict[str, str]:
    return {"status": "ok", "version": version("research-exchange")}
