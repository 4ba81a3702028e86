"""Ideas: saved once, and from then on said anew and never rewritten (R-001, R-003)."""

from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from research_exchange.credentials import find_credential
from research_exchange.documents.idea import IdeaContext
from research_exchange.server.access import Caller
from research_exchange.server.errors import ApiError, unknown_idea
from research_exchange.store import (
    Clock,
    IdeaRecord,
    Identifiers,
    Reader,
    SnapshotRecord,
    SpecRecord,
    Store,
    Writer,
)


@dataclass(frozen=True)
class IdeaText:
    """What an idea says at one moment."""

    title: str
    summary: str | None = None
    """One paragraph."""
    source_url: str | None = None
    """Where it came up, such as the permalink of a message."""
    triage: str | None = None
    """What whoever sorted it made of it."""

    @classmethod
    def of(cls, snapshot: SnapshotRecord) -> "IdeaText":
        return cls(**{field.name: getattr(snapshot, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Idea:
    record: IdeaRecord
    current: SnapshotRecord
    """What it says now. Its number is how many snapshots there are."""


@dataclass(frozen=True)
class IdeaPage:
    """An idea with one page of what was said of it and one of the versions made from it, the newest first."""

    idea: Idea
    snapshots: list[SnapshotRecord]
    snapshots_from: int
    """How many are newer than those on the page."""
    versions: list[SpecRecord]
    versions_total: int


@dataclass(frozen=True)
class SavedIdea:
    idea: Idea
    is_new: bool
    """False when this very source had been saved before."""


class Ideas:
    """The ideas of an Exchange. Each method raises `ApiError` for what it cannot do."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    def add(self, text: IdeaText, who: Caller, author: str | None = None, source_key: str | None = None) -> SavedIdea:
        """Save an idea.

        Args:
            text: What it says.
            who: Who saves it.
            author: Whose idea it is, where that is somebody else.
            source_key: What it was made from; the same source makes no second idea.
        """
        _check(text)
        with self._store.writing() as writer:
            known = writer.idea_with_source(source_key) if source_key is not None else None
            if known is not None:
                return SavedIdea(_with_current(writer, known), is_new=False)
            record = IdeaRecord(self._ids.idea(), self._clock(), author or who.name, source_key)
            writer.add_idea(record)
            snapshot = _say(writer, record.id, record, text)
            writer.add_audit(record.created_at, who.actor, "idea.add", record.id, {"title": text.title})
            return SavedIdea(Idea(record, snapshot), is_new=True)

    def revise(self, idea_id: str, changes: dict[str, str | None], who: Caller, author: str | None = None) -> Idea:
        """Say an idea anew: what `changes` leaves out stays as it is. Nothing new is said where nothing changes.

        Versions that were saved before keep the context that they were saved with.
        """
        with self._store.writing() as writer:
            idea = _known(writer, idea_id)
            before = IdeaText.of(idea.current)
            text = IdeaText(**{**vars(before), **changes})
            _check(text)
            if text == before:
                return idea
            now = self._clock()
            said = writer.add_snapshot(idea_id, now, author or who.name, **vars(text))
            changed = sorted(name for name, value in vars(text).items() if value != getattr(before, name))
            writer.add_audit(now, who.actor, "idea.revise", idea_id, {"snapshot": said.number, "changed": [*changed]})
            return Idea(idea.record, said)

    def idea(self, idea_id: str) -> Idea:
        with self._store.reading() as reader:
            return _known(reader, idea_id)

    def idea_page(self, idea_id: str, limit: int, said: int | None = None, versions_from: int = 0) -> IdeaPage:
        """An idea with `limit` snapshots and versions at most.

        Args:
            idea_id: Of the idea.
            limit: Of each list.
            said: The number of a snapshot that is to be on the page, by default the newest.
            versions_from: How many newer versions to leave out.
        """
        with self._store.reading() as reader:
            idea = _known(reader, idea_id)
            newest = idea.current.number
            newer = newest - min(said or newest, newest)
            snapshots_from = newer - newer % limit
            return IdeaPage(
                idea,
                reader.snapshots(idea_id, limit, snapshots_from, newest_first=True),
                snapshots_from,
                reader.specs(limit, versions_from, idea_id),
                reader.count_specs(idea_id),
            )

    def snapshots(self, idea_id: str, limit: int, offset: int) -> tuple[list[SnapshotRecord], int]:
        """What an idea said, oldest first, and how many snapshots there are in all."""
        with self._store.reading() as reader:
            total = _known(reader, idea_id).current.number
            return reader.snapshots(idea_id, limit, offset), total

    def had_triage(self, idea_id: str, triage: str) -> bool:
        """Whether an idea was ever sorted with these words."""
        with self._store.reading() as reader:
            return reader.had_triage(idea_id, triage)

    def with_source(self, source_key: str) -> Idea | None:
        with self._store.reading() as reader:
            record = reader.idea_with_source(source_key)
            return None if record is None else _with_current(reader, record)

    def page(self, limit: int, offset: int) -> tuple[list[Idea], int]:
        """Newest first, and how many there are in all."""
        with self._store.reading() as reader:
            listed = [_with_current(reader, record) for record in reader.ideas(limit, offset)]
            return listed, reader.count_ideas()


def context_of(snapshot: SnapshotRecord) -> IdeaContext:
    """What a brief says of the idea."""
    return IdeaContext(
        snapshot.title, summary=snapshot.summary or "", source=snapshot.source_url or "", triage=snapshot.triage or ""
    )


def _say(writer: Writer, idea_id: str, record: IdeaRecord, text: IdeaText) -> SnapshotRecord:
    return writer.add_snapshot(idea_id, record.created_at, record.author, **vars(text))


def _known(reader: Reader, idea_id: str) -> Idea:
    record = reader.idea(idea_id)
    if record is None:
        raise unknown_idea(idea_id)
    return _with_current(reader, record)


def _with_current(reader: Reader, record: IdeaRecord) -> Idea:
    current = reader.current_snapshot(record.id)
    assert current is not None, "an idea and its first snapshot are saved together"
    return Idea(record, current)


def _check(text: IdeaText) -> None:
    if not text.title.strip():
        raise ApiError(422, "An idea has a title, a line that says what it is about.")
    if text.source_url is not None and not _is_link(text.source_url):
        raise ApiError(422, "The source of an idea is an http or https address without user or password.")
    for name, value in vars(text).items():
        found = find_credential(value.encode("utf-8", "surrogatepass")) if value else None
        if found is not None:
            raise ApiError(
                422, f"The {name} holds {found.what} in line {found.line}; take it out and send the idea again."
            )


def _is_link(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False
