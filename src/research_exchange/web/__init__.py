"""The pages that people read, and the whole application: `create_app` adds them to the API, `serve` runs both.

A page is rendered from what the API answers as JSON; nothing on it can change anything (R-224).
"""

from research_exchange.web.app import create_app, serve

__all__ = ["create_app", "serve"]
