"""A message in Slack becomes an idea with its permalink, is sorted by a reply, and ends as a saved version."""

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from research_exchange.server.outside import Outside
from research_exchange.server.slack import plain_text, title_and_summary
from research_exchange.web import create_app
from tests.research_exchange.access.test_tokens import SetClock
from tests.research_exchange.intake.slack_service import BOT_TOKEN, SlackService, slack_service
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json
from tests.research_exchange.server.serving import NO_TLS, in_thread

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TEAM, CHANNEL, BOT = "T1", "C1", "UBOT"


@dataclass(frozen=True)
class Connected:
    """An Exchange with a Slack app."""

    admin: Caller
    slack: SlackService
    clock: SetClock

    def send(
        self, body: Json | bytes, headers: dict[str, str] | None = None, *, secret: str = SECRET, age: int = 0
    ) -> httpx.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        at = str(int(self.clock().timestamp()) - age)
        mac = hmac.new(secret.encode(), b"v0:" + at.encode() + b":" + raw, hashlib.sha256).hexdigest()
        signed = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={mac}", **(headers or {})}
        return self.admin.http.post("/api/slack/events", content=raw, headers=signed)

    def say(self, text: str, at: str = "1700000000.000100", **changes: Any) -> httpx.Response:
        return self.send(event(text, at, **changes))

    def ideas(self) -> list[Json]:
        listed: list[Json] = self.admin.get("/api/ideas").json()["ideas"]
        return listed


def event(text: str, at: str = "1700000000.000100", **changes: Any) -> Json:
    said = {"type": "app_mention", "user": "U7", "text": text, "channel": CHANNEL, "ts": at, **changes}
    return {
        "type": "event_callback",
        "team_id": TEAM,
        "event_id": "Ev1",
        "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True}],
        "event": said,
    }


@contextmanager
def connected_exchange(data: Path, **changes: str) -> Iterator[Connected]:
    clock = SetClock()
    with slack_service() as slack:
        environment = {
            "RX_SLACK_SIGNING_SECRET": SECRET,
            "RX_SLACK_BOT_TOKEN": BOT_TOKEN,
            "RX_SLACK_API_URL": slack.url,
            "RX_SLACK_CHANNELS": "C9",
            "RX_PUBLIC_URL": "https://exchange.example/",
        }
        app = create_app(data, clock=clock, outside=Outside.from_environment({**environment, **changes}))
        with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
            yield Connected(Caller(http, (data / "admin-token").read_text().strip()), slack, clock)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    """For what leaves no idea behind."""
    with connected_exchange(tmp_path_factory.mktemp("slack") / "data") as exchange:
        yield exchange


@pytest.fixture
def connected(data: Path) -> Iterator[Connected]:
    with connected_exchange(data) as exchange:
        yield exchange


def eventually(reached: Any, seconds: float = 10) -> None:
    """Waits for what happens after an answer."""
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_from_a_message_to_a_saved_version(connected: Connected) -> None:
    text = "<@UBOT> Train on sums with *carries*\nThey may teach &lt;more&gt;.\n\nSee <https://a.example/p|the paper>."
    idea_id = connected.say(text).json()["idea"]
    idea = connected.admin.get(f"/api/ideas/{idea_id}").json()
    assert idea["title"] == "Train on sums with *carries*"
    assert idea["summary"] == "They may teach <more>. See the paper (https://a.example/p)."
    assert idea["source_url"] == "https://lab.slack.com/archives/C1/p1700000000000100"
    assert idea["created_by"] == "Slack user U7"
    eventually(lambda: connected.slack.replies)
    reply = connected.slack.replies[0]
    assert (reply["channel"], reply["thread_ts"]) == (CHANNEL, "1700000000.000100")
    assert f"{idea_id}. https://exchange.example/ideas/{idea_id}" in reply["text"]

    connected.say("Triage: worth a day", "1700000009.000100", thread_ts="1700000000.000100", type="message")
    drafted = connected.admin.post(f"/api/ideas/{idea_id}/draft").json()
    assert any(finding["level"] == "error" for finding in drafted["lint"])
    spec = {**drafted["spec"], **{name: value for name, value in scenarios.spec().items() if name != "title"}}
    saved = connected.admin.post("/api/specs", spec, idea=idea_id).json()
    assert (saved["idea"], saved["idea_snapshot"]) == (idea_id, 2)
    brief = connected.admin.get(f"/api/specs/{saved['id']}/brief").json()["brief"]
    assert idea["source_url"] in brief and "worth a day" in brief
    logged = [(each["actor"], each["action"]) for each in connected.admin.get("/api/audit").json()["audit"]]
    assert logged == [("admin", "spec.add"), ("slack", "idea.revise"), ("slack", "idea.add")]


def test_a_message_that_comes_again_makes_no_second_idea(connected: Connected) -> None:
    """Slack sends an event again when it was not answered in three seconds, and a mention in a channel comes twice."""
    first = connected.say("Once")
    again = connected.send(event("Once"), {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"})
    as_message = connected.say("Once", type="message")
    assert first.json() == again.json()
    assert as_message.status_code == 200
    connected.say("triage: no", "2.1", thread_ts="1700000000.000100")
    connected.say("triage: yes", "3.1", thread_ts="1700000000.000100")
    connected.say("triage: no", "2.1", thread_ts="1700000000.000100")
    assert [(idea["title"], idea["snapshot"], idea["triage"]) for idea in connected.ideas()] == [("Once", 3, "yes")]
    eventually(lambda: connected.slack.replies)
    assert (len(connected.slack.replies), len(connected.slack.linked)) == (1, 1)


def test_every_message_in_a_channel_for_ideas_is_one(connected: Connected) -> None:
    assert connected.say("Not meant", "1.1", type="message").json() == {"idea": None}
    assert connected.say("Meant", "1.2", type="message", channel="C9").json()["idea"].startswith("idea_")
    assert [idea["title"] for idea in connected.ideas()] == ["Meant"]


def test_an_idea_is_kept_when_slack_does_not_answer(connected: Connected) -> None:
    connected.slack.refuses += ["channel_not_found", "ratelimited"]
    idea = connected.say("Kept")
    assert idea.status_code == 200
    assert connected.ideas()[0]["source_url"] == "https://app.slack.com/client/T1/C1/thread/C1-1700000000.000100"


def test_a_secret_in_a_message_is_not_kept(connected: Connected, data: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    connected.say(f"Use this\nThe key is {token} and it works")
    idea = connected.ideas()[0]
    assert token not in json.dumps(idea)
    assert idea["summary"].startswith("The key is ") and idea["summary"].endswith(" and it works")
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert token.encode() not in kept and SECRET.encode() not in kept and BOT_TOKEN.encode() not in kept


def test_slack_verifies_the_address_with_a_challenge(shared: Connected) -> None:
    challenge = {"type": "url_verification", "token": "old", "challenge": "3eZbrw1aB"}
    assert shared.send(challenge).json() == {"challenge": "3eZbrw1aB"}
    assert shared.send(challenge, secret="another").status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"bot_id": "B1"},
        {"bot_profile": {}},
        {"user": BOT},
        {"user": None},
        {"subtype": "bot_message"},
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"type": "reaction_added"},
        {"type": None},
        {"text": None},
        {"text": "<@UBOT>  "},
        {"channel": None},
        {"channel": "C1:C2"},
        {"ts": "not a moment"},
        {"ts": 1700000000.0001},
        {"thread_ts": "1600000000.000100"},
        {"thread_ts": "1600000000.000100", "text": "triage: of nothing"},
        {"thread_ts": 5},
    ],
)
def test_what_is_no_idea_is_left_alone(shared: Connected, changes: Json) -> None:
    answer = shared.say(**{"text": "An idea", **changes})
    assert (answer.status_code, answer.json()) == (200, {"idea": None})
    assert shared.ideas() == []


@pytest.mark.parametrize(("secret", "age", "status"), [(SECRET, 299, 200), (SECRET, 301, 401), (SECRET, -301, 401)])
def test_a_signature_is_good_for_five_minutes(shared: Connected, secret: str, age: int, status: int) -> None:
    assert shared.send(event("", type="x"), secret=secret, age=age).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Slack-Signature": ""},
        {"X-Slack-Signature": "v0=" + "0" * 64},
        {"X-Slack-Request-Timestamp": "now"},
        {"X-Slack-Request-Timestamp": "9" * 400},
        {"X-Slack-Request-Timestamp": "-1"},
    ],
)
def test_what_slack_did_not_sign_is_refused(shared: Connected, headers: dict[str, str]) -> None:
    answer = shared.send(event("An idea"), headers)
    assert answer.status_code == 401
    assert set(answer.json()) == {"error", "status"}
    umlaut = {b"X-Slack-Request-Timestamp": b"1772366400", b"X-Slack-Signature": "v0=ü".encode()}
    assert shared.admin.http.post("/api/slack/events", content=b"{}", headers=umlaut).status_code == 401
    assert shared.ideas() == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=200) | st.text(max_size=50).map(lambda text: f'{{"type":"event_callback",{text}}}'.encode())
)
def test_signed_bytes_of_any_kind_are_answered_in_a_sentence(shared: Connected, body: bytes) -> None:
    answer = shared.send(body)
    assert answer.status_code in (200, 401, 422)
    assert answer.status_code == 200 or answer.json()["error"].endswith(".")


_ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text(max_size=20)
    | st.sampled_from([TEAM, CHANNEL, BOT]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(["user", "text", "channel", "ts", "thread_ts", "subtype", "bot_id", "type"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(_FIELDS, _ANYTHING, min_size=1, max_size=4), envelope=_ANYTHING)
def test_events_of_any_form_are_answered(shared: Connected, changes: Json, envelope: Json) -> None:
    made = event("", type="message")
    made["event"].update(changes)
    made["authorizations"] = envelope
    assert shared.send(made).status_code == 200


def test_an_event_that_is_too_large_is_refused(shared: Connected) -> None:
    assert shared.send(b" " * (1024 * 1024 + 1)).status_code == 413


def test_without_a_slack_app_nothing_is_taken(admin: Caller) -> None:
    answer = admin.post("/api/slack/events", {"type": "url_verification", "challenge": "x"})
    assert answer.status_code == 404
    assert "RX_SLACK_SIGNING_SECRET" in answer.json()["error"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<@U1> <@U2>: do it", "do it"),
        ("ask <@U1> or <@U2|ann>", "ask @U1 or @ann"),
        ("in <#C1|ideas> <!here>", "in #ideas @here"),
        ("<https://a.example>", "https://a.example"),
        ("<https://a.example|https://a.example>", "https://a.example"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("a < b > c", "a < b > c"),
    ],
)
def test_slacks_marks_become_words(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@given(st.text(max_size=600))
def test_a_title_is_short_and_nothing_is_lost(said: str) -> None:
    title, summary = title_and_summary(said.strip())
    assert len(title) <= 120
    words = said.split()
    if title.endswith("…") and not said.split("\n")[0].strip().endswith("…"):
        assert (summary or "").split() == words
    elif summary is not None:
        assert title.split() + summary.split() == words
