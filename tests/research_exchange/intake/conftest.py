from tests.research_exchange.server.conftest import (
    admin,
    app,
    clock,
    data,
    exchange,
    migrated,
    nobody,
    runner,
    shared_admin,
)

__all__ = ["admin", "app", "clock", "data", "exchange", "migrated", "nobody", "runner", "shared_admin"]
