"""A run as a reader sees it: all that the store holds of it at one moment, folded and judged, and the same as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import cast

from research_exchange.documents.evidence import EvidenceFile
from research_exchange.documents.json import JsonValue, parse
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate
from research_exchange.judgment import Judgment, judge
from research_exchange.server.errors import ApiError
from research_exchange.server.folding import Folds
from research_exchange.server.limits import MAX_NEWEST
from research_exchange.store import (
    BlobStore,
    Cancellation,
    EvidenceRecord,
    OutcomeRecord,
    QueueRecord,
    Reader,
    RefusalRecord,
    RunRecord,
    SessionRecord,
    StorageUnreachable,
    Store,
    UpdateHead,
)


@dataclass(frozen=True)
class RunView:
    """One consistent moment of a run."""

    run: RunRecord
    spec: Spec
    updates_total: int
    newest_heads: list[UpdateHead]
    """The newest of its updates, `MAX_NEWEST` at most, without their bytes, in order."""
    malformed: Mapping[int, str]
    """For each update that is none, why (R-06A)."""
    evidence: list[EvidenceRecord]
    refusals: list[RefusalRecord]
    sessions: list[SessionRecord]
    queue: list[QueueRecord]
    cancellation: Cancellation | None
    outcomes: list[OutcomeRecord]
    state: RunState
    files: list[EvidenceFile]
    store: Store

    @cached_property
    def heads(self) -> list[UpdateHead]:
        """Every update without its bytes, in order, read when somebody wants them all."""
        with self.store.reading() as reader:
            return reader.update_heads(self.run.id, self.updates_total, 0)

    @cached_property
    def updates(self) -> list[StoredUpdate]:
        """Every update with its bytes, in order, read when somebody wants them."""
        with self.store.reading() as reader:
            return reader.updates(self.run.id)[: self.updates_total]

    def judge(self) -> Judgment:
        """The Exchange's reading of the run, from what it holds now."""
        return judge(self.spec, self.updates, self.files, ended=self.ended, state=self.state)

    @property
    def is_over(self) -> bool:
        """Whether nobody is expected to post any more."""
        return self.state.is_final or self.ended is not None

    @property
    def ended(self) -> str | None:
        """Why the run ended without a final update: it was cancelled, or its newest session ended (R-067).

        An older session that never said so was left behind by a runner that was killed.
        """
        if self.state.is_final:
            return None
        if self.cancellation is not None:
            return f"It was cancelled: {self.cancellation.reason}" if self.cancellation.reason else "It was cancelled."
        end = self.sessions[-1].end if self.sessions else None
        return None if end is None else end.reason

    @property
    def recorded(self) -> dict[str, JsonValue] | None:
        """The judgment that stands on record."""
        return recorded_judgment(self.outcomes[-1]) if self.outcomes else None


def view_run(reader: Reader, store: Store, folds: Folds, run_id: str) -> RunView | None:
    run = reader.run(run_id)
    if run is None:
        return None
    folded = folds.fold(reader, run)
    evidence = reader.evidence(run_id)
    return RunView(
        run=run,
        spec=folded.spec,
        updates_total=reader.count_updates(run_id),
        newest_heads=reader.update_heads(run_id, MAX_NEWEST, 0, newest_first=True)[::-1],
        malformed=folded.malformed,
        evidence=evidence,
        refusals=reader.refusals(run_id),
        sessions=reader.sessions(run_id),
        queue=reader.queue_entries(run_id),
        cancellation=reader.cancellation(run_id),
        outcomes=reader.outcomes(run_id),
        state=folded.state,
        files=[evidence_file(each, store.blobs) for each in evidence],
        store=store,
    )


def evidence_file(record: EvidenceRecord, blobs: BlobStore) -> EvidenceFile:
    """The rules' view of a retained file: they read its bytes when they use them."""
    return EvidenceFile(
        name=record.name,
        kind=record.kind,
        sha256=record.sha256,
        size=record.size,
        update=record.update,
        content=partial(_content, blobs, record.sha256),
        after=record.after if record.update is None else record.update - 1,
    )


def _content(blobs: BlobStore, sha256: str) -> bytes:
    """What is not known must not be judged: a store that is away says nothing about the file.

    Raises:
        ApiError: 503 while the evidence store does not answer.
    """
    try:
        return blobs.read(sha256)
    except StorageUnreachable as away:
        raise ApiError(503, f"{away} Ask again later.") from None


def recorded_judgment(outcome: OutcomeRecord) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", parse(outcome.judgment))


def run_summary_json(run: RunRecord) -> dict[str, JsonValue]:
    return {
        "id": run.id,
        "spec_id": run.spec_id,
        "title": run.title,
        "launch_mode": run.launch_mode.value,
        "redo_of": run.redo_of,
        "created_at": moment(run.created_at),
        "phase": run.phase.value,
    }


def run_json(view: RunView) -> dict[str, JsonValue]:
    """A run as the API answers it; all updates, files and the judgment of the moment have addresses of their own."""
    return {
        **run_summary_json(view.run),
        "state": view.state.to_json(),
        "updates": updates_json(view.newest_heads, view.malformed),
        "updates_total": view.updates_total,
        "evidence": [evidence_json(file) for file in view.evidence],
        "refused": [_refusal_json(refusal) for refusal in view.refusals],
        "sessions": [session_json(session) for session in view.sessions],
        "queue": [entry_json(entry) for entry in view.queue],
        "cancelled": None if view.cancellation is None else cancellation_json(view.cancellation),
        "outcomes": [outcome_json(outcome) for outcome in view.outcomes],
        "recorded": view.recorded,
    }


def moment(at: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def perhaps(at: datetime | None) -> str | None:
    """A moment that may not have come."""
    return None if at is None else moment(at)


def updates_json(heads: Sequence[UpdateHead], malformed: Mapping[int, str]) -> list[JsonValue]:
    """Updates without their bytes, in the order given; `malformed` says of each that is none, why."""
    return [update_json(head, malformed.get(head.sequence)) for head in heads]


def update_json(head: UpdateHead, malformed: str | None) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {
        "sequence": head.sequence,
        "received_at": moment(head.received_at),
        "sha256": head.sha256,
        "size": head.size,
        "session": head.session_id,
    }
    return shown if malformed is None else {**shown, "malformed": malformed}


def evidence_json(file: EvidenceRecord) -> dict[str, JsonValue]:
    return {
        "name": file.name,
        "kind": file.kind,
        "sha256": file.sha256,
        "size": file.size,
        "update": file.update,
        "received_at": moment(file.received_at),
    }


def _refusal_json(refusal: RefusalRecord) -> dict[str, JsonValue]:
    return {
        "name": refusal.name,
        "problems": list(refusal.problems),
        "update": refusal.update,
        "received_at": moment(refusal.received_at),
    }


def session_json(session: SessionRecord) -> dict[str, JsonValue]:
    end = session.end
    return {
        "id": session.id,
        "runner": session.runner.value,
        "brief_sha256": session.brief_sha256,
        "started_at": moment(session.started_at),
        "last_seen": perhaps(session.last_seen),
        "ended_at": moment(end.ended_at) if end else None,
        "exit_code": end.exit_code if end else None,
        "reason": end.reason if end else None,
    }


def entry_json(entry: QueueRecord) -> dict[str, JsonValue]:
    """One time that a run waited, or waits, for a runner."""
    return {
        "queued_at": moment(entry.queued_at),
        "not_before": moment(entry.not_before),
        "reason": entry.reason,
        "by": entry.by,
        "claimed_at": perhaps(entry.claimed_at),
        "claimed_by": entry.claimed_by,
    }


def cancellation_json(cancellation: Cancellation) -> dict[str, JsonValue]:
    return {"at": moment(cancellation.at), "by": cancellation.by, "reason": cancellation.reason}


def outcome_json(outcome: OutcomeRecord) -> dict[str, JsonValue]:
    return {
        "number": outcome.number,
        "recorded_at": moment(outcome.recorded_at),
        "cause": outcome.cause,
        "validator_version": outcome.validator_version,
    }
