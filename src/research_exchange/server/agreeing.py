"""Whether a run says the same as the earlier runs of its spec version (R-006)."""

from research_exchange.agreement import Agreement, Side, agree
from research_exchange.server.exchange import Exchange
from research_exchange.server.views import RunView

MOST_EARLIER = 10
"""How many earlier runs one is held against, the latest ones; each may have to be judged for it."""


def agreements(exchange: Exchange, run_id: str, against: str | None = None) -> list[Agreement]:
    """A run held against the run named `against`; by default against the earlier runs of its spec, oldest first.

    A run that has not ended, and one that nothing was posted to, has nothing to compare.

    Raises:
        ApiError: 404 for a run that is not known.
    """
    run = exchange.view(run_id)
    if against is not None:
        return [agree(_side(exchange, exchange.view(against)), _side(exchange, run))]
    with exchange.store.reading() as reader:
        siblings = [each.id for each in reader.runs_of_spec(run.run.spec_id)]
    earlier = [exchange.view(each) for each in siblings[: siblings.index(run_id)]]
    ended = [view for view in earlier if view.is_over and view.state.last_update][-MOST_EARLIER:]
    return [agree(_side(exchange, view), _side(exchange, run)) for view in ended]


def _side(exchange: Exchange, view: RunView) -> Side:
    return Side(run=view.run.id, spec=view.spec, state=view.state, judgment=exchange.judging.judgment(view))
