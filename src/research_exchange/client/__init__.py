"""What a script uses to report to a Research Exchange, and what a runner uses to register specs and start runs.

    from research_exchange.client import Run

    run = Run.from_env()
    run.metric(step=1, reward=0.25)
    run.evidence("train.py", "script", Path(__file__))
    if run.gate("activation_gate").may_go_on:
        ...
    run.finish(verdict="supported", outcome_reason="supported", summary="...")

Every call waits until the Exchange has acknowledged it. An Exchange that is away, busy or restarting is asked again
with growing pauses for minutes; sending the same update or file twice is harmless, so nothing acknowledged is lost and
nothing is recorded twice. httpx and the standard library are all it needs. Tokens are sent, never printed.
"""

from research_exchange.client.errors import ExchangeError, ExchangeRefused, ExchangeUnreachable
from research_exchange.client.exchange import Exchange
from research_exchange.client.run import Evidence, GateReading, Run

__all__ = ["Evidence", "Exchange", "ExchangeError", "ExchangeRefused", "ExchangeUnreachable", "GateReading", "Run"]
