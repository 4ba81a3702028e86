"""A real HTTP server that speaks the part of Slack's Web API that the Exchange uses, and what was asked of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.research_exchange.access.tls_service import Reply, Request, service

BOT_TOKEN = "xoxb-a-test-bot"


@dataclass
class SlackService:
    url: str
    replies: list[dict[str, str]] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    """The messages whose permalinks were asked for."""
    refuses: list[str] = field(default_factory=list)
    """The errors that the next calls are answered with."""

    def answer(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {BOT_TOKEN}":
            return _json({"ok": False, "error": "invalid_auth"})
        if self.refuses:
            return _json({"ok": False, "error": self.refuses.pop(0)})
        method = urlsplit(request.path).path.rpartition("/")[2]
        if method == "chat.getPermalink":
            asked = _form(urlsplit(request.path).query.encode() or request.body)
            self.linked.append(asked["message_ts"])
            at = asked["message_ts"].replace(".", "")
            return _json({"ok": True, "permalink": f"https://lab.slack.com/archives/{asked['channel']}/p{at}"})
        if method == "chat.postMessage":
            said = json.loads(request.body) if request.body[:1] == b"{" else _form(request.body)
            self.replies.append({name: str(value) for name, value in said.items()})
            return _json({"ok": True, "ts": "1700000001.000001"})
        return _json({"ok": False, "error": "unknown_method"})


@contextmanager
def slack_service() -> Iterator[SlackService]:
    slack = SlackService("")
    with service(slack.answer, tls=False) as served:
        slack.url = f"http://127.0.0.1:{served.port}/api/"
        yield slack


def _form(body: bytes) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(body.decode()).items()}


def _json(answer: dict[str, object]) -> Reply:
    return Reply(content=json.dumps(answer).encode(), headers={"Content-Type": "application/json"})
