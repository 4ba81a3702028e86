"""What `rx` shows in a terminal: a run while it goes on, what the Exchange makes of it, and what the rules say.

`words` has the pieces, `live` the view of a run that goes on, `record` what is on record of a run, and `findings` what
lint, power card and check find.
"""

from research_exchange.terminal.live import BarView, LineView, heading, live_view
from research_exchange.terminal.record import judgment_report, run_report, runs_table, verdict_panel

__all__ = [
    "BarView",
    "LineView",
    "heading",
    "judgment_report",
    "live_view",
    "run_report",
    "runs_table",
    "verdict_panel",
]
