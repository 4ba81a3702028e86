"""What a runner itself has to say about a run."""

import logging

from research_exchange.client import ExchangeRefused, Run

__all__ = ["remark"]

log = logging.getLogger(__name__)


def remark(run: Run, sentence: str) -> None:
    """Put a sentence on record; where the run takes no further update, it is logged, and the session goes on."""
    try:
        run.update(summary=sentence)
    except ExchangeRefused as refusal:
        log.warning("%s This is not on record: %s", sentence, refusal)
