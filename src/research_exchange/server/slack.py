"""Ideas from Slack: a message to the bot, or in one of its channels, becomes an idea; a reply sorts it.

Slack posts its events here (Events API), signed with a secret that it shares with this Exchange. It sends an event
again when it is not answered in time; the same message makes no second idea. What a bot wrote is left alone.
"""

import html
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slack_sdk.signature import Clock as SlackClock
from slack_sdk.signature import SignatureVerifier

from research_exchange.credentials import redact_text
from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.server.access import Caller
from research_exchange.server.errors import ApiError
from research_exchange.server.ideas import Idea, Ideas, IdeaText
from research_exchange.server.slack_api import SLACK_API, Message, SlackApi, SlackRefused, escaped
from research_exchange.store import Clock, Role

SIGNING_SECRET_VARIABLE = "RX_SLACK_SIGNING_SECRET"
BOT_TOKEN_VARIABLE = "RX_SLACK_BOT_TOKEN"
CHANNELS_VARIABLE = "RX_SLACK_CHANNELS"
API_URL_VARIABLE = "RX_SLACK_API_URL"

MAX_TITLE = 120
MAX_TEXT = 20_000
TRIAGE = "triage:"
"""What a reply in the thread of an idea starts with that says what becomes of it."""

SLACK = Caller(Role.RESEARCHER, "slack", "Slack")

_WRITTEN_BY_PEOPLE = (None, "thread_broadcast", "file_share", "me_message")
"""Subtypes of messages; the others are edits, deletions and what Slack and its apps say by themselves."""
_NAME = re.compile(r"[A-Z0-9]{1,30}")
_MOMENT = re.compile(r"[0-9]{1,16}\.[0-9]{1,9}")
_SECONDS = re.compile(r"[0-9]{1,12}")
_MARKED = re.compile(r"<([^<>|\s][^<>|]{0,2000})(?:\|([^<>]{0,2000}))?>")


@dataclass(frozen=True)
class SlackSettings:
    """What connects an Exchange with a Slack app."""

    signing_secret: str | None = field(default=None, repr=False)
    """Without it no event is taken."""
    api: SlackApi | None = None
    """Without it links are made up from the message's names, and nothing is replied."""
    channels: frozenset[str] = frozenset()
    """Where every message is an idea; elsewhere those that mention the bot are."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "SlackSettings":
        token = environment.get(BOT_TOKEN_VARIABLE, "").strip()
        url = environment.get(API_URL_VARIABLE, "").strip() or SLACK_API
        listed = environment.get(CHANNELS_VARIABLE, "").split(",")
        return cls(
            signing_secret=environment.get(SIGNING_SECRET_VARIABLE, "").strip() or None,
            api=SlackApi(token, url) if token else None,
            channels=frozenset(name.strip() for name in listed if name.strip()),
        )


@dataclass(frozen=True)
class Received:
    """What became of an event."""

    answer: Mapping[str, JsonValue]
    """For Slack."""
    new: Idea | None = None
    """The idea that it made."""


class SlackIntake:
    """Takes Slack's events in."""

    def __init__(self, ideas: Ideas, settings: SlackSettings, clock: Clock) -> None:
        self._ideas = ideas
        self._settings = settings
        self._clock = clock

    def receive(self, body: bytes, headers: Mapping[str, str]) -> Received:
        """What Slack posted.

        Raises:
            ApiError: 401 for what Slack did not sign within the last five minutes, 404 where no Slack app is connected,
                422 for what is signed and no event.
        """
        self._verify(body, headers)
        try:
            event = as_mapping(parse(body))
        except DocumentError as error:
            raise ApiError(422, f"The event cannot be read: {error}") from None
        match event.get("type"):
            case "url_verification":
                return Received({"challenge": event.get("challenge")})
            case "event_callback":
                return self._event(event)
            case _:
                return Received({"idea": None})

    def confirm(self, idea: Idea, page: str | None) -> None:
        """Reply to an idea's message that it was saved. Whether the reply arrives changes nothing."""
        message = Message.of_source_key(idea.record.source_key)
        if message is None or self._settings.api is None:
            return
        where = f" {page}" if page else ""
        text = f"Saved as {idea.record.id}.{where} Reply with “{TRIAGE} …” to sort it."
        try:
            self._settings.api.reply(message, escaped(text))
        except SlackRefused:
            return

    def _verify(self, body: bytes, headers: Mapping[str, str]) -> None:
        secret = self._settings.signing_secret
        if secret is None:
            raise ApiError(404, f"No Slack app is connected here; start the Exchange with {SIGNING_SECRET_VARIABLE}.")
        at, signature = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
        if _SECONDS.fullmatch(at) and signature.isascii():
            try:
                if SignatureVerifier(secret, _ClockForSlack(self._clock)).is_valid(body, at, signature):
                    return
            except UnicodeDecodeError:
                pass
        raise ApiError(401, "Slack signed no such request within the last five minutes.")

    def _event(self, envelope: Mapping[str, JsonValue]) -> Received:
        event = as_mapping(envelope.get("event"))
        message = _message(envelope, event)
        text = event.get("text")
        if message is None or not isinstance(text, str) or _is_by_a_bot(envelope, event):
            return Received({"idea": None})
        said = plain_text(text)
        author = f"Slack user {event.get('user')}"
        if event.get("thread_ts") in (None, message.at):
            is_meant = event.get("type") == "app_mention" or message.channel in self._settings.channels
            return self._save(message, said, author) if is_meant else Received({"idea": None})
        return self._sort(Message(message.team, message.channel, str(event.get("thread_ts"))), said, author)

    def _save(self, message: Message, said: str, author: str) -> Received:
        known = self._ideas.with_source(message.source_key)
        if known is not None:
            return Received({"idea": known.record.id})
        title, summary = title_and_summary(said)
        if not title:
            return Received({"idea": None})
        text = IdeaText(title, summary=summary, source_url=self._link(message))
        saved = self._ideas.add(text, SLACK, author, message.source_key)
        return Received({"idea": saved.idea.record.id}, saved.idea if saved.is_new else None)

    def _sort(self, thread: Message, said: str, author: str) -> Received:
        """A reply to an idea's message; the same words, sent again, are said once."""
        idea = self._ideas.with_source(thread.source_key)
        if idea is None or not said.lower().startswith(TRIAGE):
            return Received({"idea": None})
        triage = said[len(TRIAGE) :].strip()
        if not self._ideas.had_triage(idea.record.id, triage):
            self._ideas.revise(idea.record.id, {"triage": triage or None}, SLACK, author)
        return Received({"idea": idea.record.id})

    def _link(self, message: Message) -> str:
        if self._settings.api is not None:
            try:
                return self._settings.api.permalink(message)
            except SlackRefused:
                pass
        return message.link


class _ClockForSlack(SlackClock):
    def __init__(self, clock: Clock) -> None:
        self._now = clock().timestamp()

    def now(self) -> float:
        return self._now


def plain_text(text: str) -> str:
    """A message's words without Slack's marks, without the mention that it starts with, and without credentials."""
    without_mention = re.sub(r"^(?:\s*<@[A-Z0-9|a-z._-]{1,100}>[\s:,]*)+", "", text)
    words = html.unescape(_MARKED.sub(_unmarked, without_mention))[:MAX_TEXT]
    return redact_text(words).strip()


def title_and_summary(said: str) -> tuple[str, str | None]:
    """The first line as the title, and the rest as one paragraph; all of it, where the line is too long for a title."""
    first, _, rest = said.partition("\n")
    title, following = " ".join(first.split()), " ".join(rest.split())
    if len(title) <= MAX_TITLE:
        return title, following or None
    cut = title[: MAX_TITLE - 1].rpartition(" ")[0] or title[: MAX_TITLE - 1]
    return f"{cut}…", " ".join(said.split())


def _unmarked(found: re.Match[str]) -> str:
    target, label = found[1], found[2]
    if target.startswith(("@", "#", "!")):
        return f"{'#' if target.startswith('#') else '@'}{label or target[1:]}"
    return f"{label} ({target})" if label and label != target else target


def _message(envelope: Mapping[str, JsonValue], event: Mapping[str, JsonValue]) -> Message | None:
    """Where the event's message stands, when it is one that a person wrote."""
    team, channel, at = envelope.get("team_id"), event.get("channel"), event.get("ts")
    if event.get("type") not in ("message", "app_mention") or event.get("subtype") not in _WRITTEN_BY_PEOPLE:
        return None
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in (team, channel)):
        return None
    if not isinstance(at, str) or not _MOMENT.fullmatch(at):
        return None
    return Message(str(team), str(channel), at)


def _is_by_a_bot(envelope: Mapping[str, JsonValue], event: Mapping[str, JsonValue]) -> bool:
    """Whether an app wrote it, such as this Exchange's own."""
    user = event.get("user")
    own = [as_mapping(each).get("user_id") for each in as_list(envelope.get("authorizations")) if _is_bot(each)]
    return "bot_id" in event or "bot_profile" in event or not isinstance(user, str) or user in own


def _is_bot(authorization: JsonValue) -> bool:
    return as_mapping(authorization).get("is_bot") is True
