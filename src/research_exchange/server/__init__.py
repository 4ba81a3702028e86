"""The REST API of the Exchange, over the store and the rules.

`Exchange` holds the services: what happens when something is posted, and what a reader sees. Routes turn requests into
calls of it, `errors` gives every refusal one shape, `access` says who may do what, `limits` caps a body before anything
parses it. `research_exchange.web` adds the pages and puts the whole application together.
"""

from research_exchange.server.application import create_api
from research_exchange.server.door import BadSetting, Door
from research_exchange.server.errors import ApiError
from research_exchange.server.exchange import Exchange
from research_exchange.server.process import CannotServe, opening, serve_app
from research_exchange.server.views import RunView

__all__ = [
    "ApiError",
    "BadSetting",
    "CannotServe",
    "Door",
    "Exchange",
    "RunView",
    "create_api",
    "opening",
    "serve_app",
]
