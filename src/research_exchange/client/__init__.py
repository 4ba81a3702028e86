"""What a script uses to report to a Research Exchange, and what a runner uses to register specs and start runs.

    from research_exchange.client import Run

    run = Run.from_env()
    run.metric(step=1, reward=0.25)
    run.evidence("train.py", "script", Path(__file__))
    if run.gate("activation_gate").may_go_on:
        ...
    run.finish(verdict="supported", outcome_reason="supported", summary="...")

A report counts once its call returns: the Exchange has it or, where that has been away for longer than a short while,
it is on this disk, in the spool, from where it is sent in order as soon as the Exchange answers. Whatever needs an
answer, above all a gate, waits. Sending the same report twice is harmless, so nothing is lost and nothing is recorded
twice. httpx and the standard library are all it needs. Tokens are sent, never printed, and never written to the spool.
"""

from research_exchange.client.errors import ExchangeError, ExchangeRefused, ExchangeUnreachable, SpecRefused
from research_exchange.client.events import Event
from research_exchange.client.exchange import Exchange
from research_exchange.client.run import Evidence, GateReading, Run

__all__ = [
    "Event",
    "Evidence",
    "Exchange",
    "ExchangeError",
    "ExchangeRefused",
    "ExchangeUnreachable",
    "GateReading",
    "Run",
    "SpecRefused",
]
