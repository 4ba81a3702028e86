"""The two things that the Exchange asks of Slack: where a message stands, and a reply in its thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

SLACK_API = "https://slack.com/api/"
SECONDS = 2
"""For one call: Slack waits three seconds for an answer to an event."""


class SlackRefused(Exception):
    """What Slack said, or why it was not reached: a clause without any secret."""


@dataclass(frozen=True)
class Message:
    """Where a message stands."""

    team: str
    channel: str
    at: str
    """Its `ts`: Slack's name of a message within its channel."""

    @property
    def source_key(self) -> str:
        return f"slack:{self.team}:{self.channel}:{self.at}"

    @classmethod
    def of_source_key(cls, source_key: str | None) -> "Message | None":
        """The message that an idea was made from, when it was made from one."""
        parts = (source_key or "").split(":")
        return cls(*parts[1:]) if len(parts) == 4 and parts[0] == "slack" else None

    @property
    def link(self) -> str:
        """Opens the message in Slack, though not by the name of its workspace as a permalink does."""
        return f"https://app.slack.com/client/{self.team}/{self.channel}/thread/{self.channel}-{self.at}"


@dataclass(frozen=True)
class SlackApi:
    """Slack's Web API, as one bot."""

    token: str = field(repr=False)
    url: str = SLACK_API

    def permalink(self, message: Message) -> str:
        """Raises SlackRefused."""
        with _said_in_a_clause():
            answer = self._client().chat_getPermalink(channel=message.channel, message_ts=message.at)
        link = answer.get("permalink")
        if not isinstance(link, str) or not link.startswith("https://"):
            raise SlackRefused("Slack named no permalink")
        return link

    def reply(self, message: Message, text: str) -> None:
        """Write into the thread of a message; raises SlackRefused."""
        with _said_in_a_clause():
            self._client().chat_postMessage(
                channel=message.channel, thread_ts=message.at, text=text, unfurl_links=False
            )

    def _client(self) -> WebClient:
        # Whoever calls has a time to try again of its own.
        return WebClient(self.token, base_url=self.url, timeout=SECONDS, retry_handlers=[])


@contextmanager
def _said_in_a_clause() -> Iterator[None]:
    try:
        yield
    except SlackApiError as error:
        raise SlackRefused(f"Slack refused: {error.response.get('error', 'no reason given')}") from None
    except (SlackClientError, HTTPException, OSError, ValueError) as error:
        raise SlackRefused(f"Slack was not reached: {type(error).__name__}") from None


def escaped(text: str) -> str:
    """Text that Slack shows as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
