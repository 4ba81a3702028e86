"""A run document, reported to a served Exchange as its runner would have."""

from typing import Any

from tests.research_exchange.server.serving import Served
from tests.web.conftest import Reporter


def replay(server: Served, document: dict[str, Any]) -> Reporter:
    """Each update in its turn, the files that came with it uploaded right before it."""
    reporter = Reporter(server, document["spec"])
    session = reporter.session()
    for number, update in enumerate(document["updates"], start=1):
        for file in document["evidence"]:
            if file["update"] == number:
                assert reporter.upload(file["name"], file["content"].encode(), file["kind"]) == 201
        reporter.update(update)
    reporter.end_session(session, "The command ended.")
    return reporter
