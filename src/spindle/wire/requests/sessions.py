"""Sessions."""

from typing import Literal

from pydantic import AwareDatetime, Field

from spindle.control.sessions import About
from spindle.wire.requests.body import Body, Metadata


class SessionAddress(Body):
    session_id: str


class CreateSession(Body):
    tags: list[str] = Field(default_factory=list)
    user_metadata: Metadata = Field(default_factory=dict)
    sdk_version: str = ""
    project_id: str | None = None
    display_name: str | None = None

    def to_contract(self) -> About:
        return About(tuple(self.tags), self.user_metadata, self.sdk_version, self.project_id, self.display_name)


class FinishReason(Body):
    type: Literal["success", "errored", "interrupted"]


class FinishSession(Body):
    reason: FinishReason
    detail: str | None = None


class AssignProject(Body):
    project_id: str


class Typed(Body):
    """One of several kinds, and what some of them add."""

    type: str
    owner_urns: list[str] = Field(default_factory=list)
    reasons: list[str] | None = None


class SearchCursor(Body):
    last_created_at: AwareDatetime
    last_session_id: str


class SearchSessions(Body):
    session_id: str | None = None
    project_ids: list[str] | None = None
    user_metadata: Metadata = Field(default_factory=dict)
    display_name: str | None = None
    owner: Typed = Typed(type="own")
    statuses: list[Typed] | None = None
    limit: int = Field(default=50, ge=1, le=200)
    cursor: SearchCursor | None = None
