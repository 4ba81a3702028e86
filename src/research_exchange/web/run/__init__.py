"""The page of one run: what the Exchange holds of it, put into words and shapes."""

from research_exchange.web.run.page import RunPage, RunPages

__all__ = ["RunPage", "RunPages"]
