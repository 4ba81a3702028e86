from tests.research_exchange.server.conftest import admin, app, clock, data, exchange, nobody, runner

__all__ = ["admin", "app", "clock", "data", "exchange", "nobody", "runner"]
