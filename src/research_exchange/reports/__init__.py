"""A run as a report: one HTML page that needs nothing else, and Markdown with its figures beside it.

A report is a function of what a bundle holds: the same bundle gives the same bytes, anywhere and offline. `report_of`
says what is told of a run, in the words and figures that its page uses; `html` and `markdown` write it down.
"""

from research_exchange.reports.content import Report, report_of
from research_exchange.reports.html import html
from research_exchange.reports.markdown import markdown

__all__ = ["Report", "html", "markdown", "report_of"]
