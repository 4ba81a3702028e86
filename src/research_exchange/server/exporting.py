"""A run as a bundle: what the store holds of it at one moment, in the form that everybody can verify."""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256

from research_exchange import judgment as rules
from research_exchange.bundles import Contents, bundle_chunks, installed, kept
from research_exchange.bundles import record as entries
from research_exchange.server.exchange import Exchange
from research_exchange.server.views import RunView
from research_exchange.store import (
    BlobStore,
    Cancellation,
    OutcomeRecord,
    QueueRecord,
    Reader,
    SessionRecord,
    SnapshotRecord,
    SpecRecord,
)

__all__ = ["exported_run"]


def exported_run(exchange: Exchange, run_id: str) -> Iterator[bytes]:
    """The bytes of a run's bundle, piece by piece; everything that they say is of the moment of this call.

    Raises:
        ApiError: 404 for a run that is not known.
        BundleTooLarge: for a run that no bundle can hold.
    """
    with exchange.store.reading() as reader:
        view = exchange.view_of(reader, run_id)
        spec = reader.spec(view.run.spec_id)
        assert spec is not None, "a foreign key says that every run has its spec"
        idea = _idea(reader, spec)
    judged = exchange.judging.judged(view)
    record = _record(view, spec, idea, view.cancellation, judged)
    return bundle_chunks(record, _contents(record, view, judged, exchange.store.blobs))


def _record(
    view: RunView, spec: SpecRecord, idea: entries.IdeaEntry | None, cancelled: Cancellation | None, judged: bytes
) -> entries.RunRecord:
    run = view.run
    return entries.RunRecord(
        version=entries.VERSION,
        run=entries.RunEntry(run.id, run.spec_id, run.launch_mode.value, run.redo_of, run.created_at, view.ended),
        spec=entries.SpecEntry(spec.title, spec.sha256, spec.created_at, spec.parent),
        idea=idea,
        sessions=tuple(map(_session, view.sessions)),
        updates=tuple(
            entries.UpdateEntry(each.sequence, each.received_at, each.session, each.sha256, len(each.raw))
            for each in view.updates
        ),
        evidence=tuple(
            entries.EvidenceEntry(
                file.name, file.kind, file.sha256, file.size, file.update, file.after, record.received_at
            )
            for file, record in zip(view.files, view.evidence, strict=True)
        ),
        refused=tuple(
            entries.RefusalEntry(each.name, each.problems, each.update, each.received_at) for each in view.refusals
        ),
        outcomes=tuple(map(_outcome, view.outcomes)),
        judgment=entries.JudgmentEntry(rules.VERSION, sha256(judged).hexdigest()),
        queue=tuple(map(_queue, view.queue)),
        cancelled=None
        if cancelled is None
        else entries.CancellationEntry(cancelled.at, cancelled.by, cancelled.reason),
        software=installed(),
    )


def _contents(record: entries.RunRecord, view: RunView, judged: bytes, blobs: BlobStore) -> Contents:
    """What reads each member; files are read when it is their turn, and hashed again."""
    contents: dict[str, Callable[[], bytes]] = {entries.SPEC: kept(view.spec.raw), entries.JUDGMENT: kept(judged)}
    for session in record.sessions:
        if session.brief is not None and session.brief_sha256 is not None:
            contents[session.brief] = partial(blobs.read, session.brief_sha256)
    for update, entry in zip(view.updates, record.updates, strict=True):
        contents[entry.member] = kept(update.raw)
    for file, evidence in zip(view.files, record.evidence, strict=True):
        contents[evidence.member] = file.read
    for outcome, recorded in zip(view.outcomes, record.outcomes, strict=True):
        contents[recorded.member] = kept(outcome.judgment)
    return contents


def _idea(reader: Reader, spec: SpecRecord) -> entries.IdeaEntry | None:
    """What was known of the idea when the version was saved (R-003)."""
    if spec.idea_id is None or spec.idea_snapshot is None:
        return None
    snapshot = reader.snapshot(spec.idea_id, spec.idea_snapshot)
    return None if snapshot is None else _snapshot(snapshot)


def _snapshot(snapshot: SnapshotRecord) -> entries.IdeaEntry:
    return entries.IdeaEntry(
        id=snapshot.idea_id,
        snapshot=snapshot.number,
        at=snapshot.at,
        author=snapshot.author,
        title=snapshot.title,
        summary=snapshot.summary,
        source_url=snapshot.source_url,
        triage=snapshot.triage,
    )


def _session(session: SessionRecord) -> entries.SessionEntry:
    end = session.end
    return entries.SessionEntry(
        id=session.id,
        runner=session.runner.value,
        started_at=session.started_at,
        ended_at=None if end is None else end.ended_at,
        exit_code=None if end is None else end.exit_code,
        reason=None if end is None else end.reason,
        brief_sha256=session.brief_sha256,
    )


def _queue(entry: QueueRecord) -> entries.QueueEntry:
    return entries.QueueEntry(
        number=entry.number,
        queued_at=entry.queued_at,
        not_before=entry.not_before,
        reason=entry.reason,
        by=entry.by,
        claimed_at=entry.claimed_at,
        claimed_by=entry.claimed_by,
    )


def _outcome(outcome: OutcomeRecord) -> entries.OutcomeEntry:
    digest = sha256(outcome.judgment).hexdigest()
    return entries.OutcomeEntry(outcome.number, outcome.recorded_at, outcome.cause, outcome.validator_version, digest)
