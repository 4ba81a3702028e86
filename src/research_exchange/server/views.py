"""A run as a reader sees it: all that the store holds of it at one moment, folded and judged, and the same as JSON."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from research_exchange.documents.evidence import EvidenceFile
from research_exchange.documents.json import JsonValue, parse
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate
from research_exchange.judgment import Judgment, judge
from research_exchange.store import (
    BlobStore,
    EvidenceRecord,
    OutcomeRecord,
    Reader,
    RefusalRecord,
    RunRecord,
    SessionRecord,
)
from research_exchange.updates import fold


@dataclass(frozen=True)
class RunView:
    """One consistent moment of a run."""

    run: RunRecord
    spec: Spec
    updates: list[StoredUpdate]
    evidence: list[EvidenceRecord]
    refusals: list[RefusalRecord]
    sessions: list[SessionRecord]
    outcomes: list[OutcomeRecord]
    state: RunState
    files: list[EvidenceFile]

    def judge(self) -> Judgment:
        """The Exchange's reading of the run, from what it holds now."""
        return judge(self.spec, self.updates, self.files, ended=self.ended)

    @property
    def is_over(self) -> bool:
        """Whether nobody is expected to post any more."""
        return self.state.is_final or self.ended is not None

    @property
    def ended(self) -> str | None:
        """Why the newest session ended, when it did and no final update was posted (R-067).

        An older one that never said so was left behind by a runner that was killed.
        """
        end = self.sessions[-1].end if self.sessions else None
        return None if self.state.is_final or end is None else end.reason

    @property
    def recorded(self) -> dict[str, JsonValue] | None:
        """The judgment that stands on record."""
        return recorded_judgment(self.outcomes[-1]) if self.outcomes else None


def view_run(reader: Reader, blobs: BlobStore, run_id: str) -> RunView | None:
    run = reader.run(run_id)
    if run is None:
        return None
    record = reader.spec(run.spec_id)
    assert record is not None, "a foreign key says that every run has its spec"
    spec = Spec.parse(record.raw)
    updates, evidence = reader.updates(run_id), reader.evidence(run_id)
    return RunView(
        run=run,
        spec=spec,
        updates=updates,
        evidence=evidence,
        refusals=reader.refusals(run_id),
        sessions=reader.sessions(run_id),
        outcomes=reader.outcomes(run_id),
        state=fold(spec, updates),
        files=[evidence_file(each, blobs) for each in evidence],
    )


def evidence_file(record: EvidenceRecord, blobs: BlobStore) -> EvidenceFile:
    """The rules' view of a retained file: they read its bytes when they use them."""
    return EvidenceFile(
        name=record.name,
        kind=record.kind,
        sha256=record.sha256,
        size=record.size,
        update=record.update,
        content=partial(blobs.read, record.sha256),
        after=record.after if record.update is None else record.update - 1,
    )


def recorded_judgment(outcome: OutcomeRecord) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", parse(outcome.judgment))


def run_summary_json(run: RunRecord) -> dict[str, JsonValue]:
    return {
        "id": run.id,
        "spec_id": run.spec_id,
        "title": run.title,
        "launch_mode": run.launch_mode.value,
        "created_at": moment(run.created_at),
    }


def run_json(view: RunView) -> dict[str, JsonValue]:
    """A run as the API answers it; raw updates, files and the judgment of the moment have addresses of their own."""
    return {
        **run_summary_json(view.run),
        "state": view.state.to_json(),
        "updates": [_update_json(update) for update in view.updates],
        "evidence": [_evidence_json(file) for file in view.evidence],
        "refused": [_refusal_json(refusal) for refusal in view.refusals],
        "sessions": [_session_json(session) for session in view.sessions],
        "outcomes": [_outcome_json(outcome) for outcome in view.outcomes],
        "recorded": view.recorded,
    }


def moment(at: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _update_json(update: StoredUpdate) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {
        "sequence": update.sequence,
        "received_at": moment(update.received_at),
        "sha256": update.sha256,
        "size": len(update.raw),
        "session": update.session,
    }
    return shown if update.malformed is None else {**shown, "malformed": update.malformed}


def _evidence_json(file: EvidenceRecord) -> dict[str, JsonValue]:
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


def _session_json(session: SessionRecord) -> dict[str, JsonValue]:
    end = session.end
    return {
        "id": session.id,
        "started_at": moment(session.started_at),
        "ended_at": moment(end.ended_at) if end else None,
        "exit_code": end.exit_code if end else None,
        "reason": end.reason if end else None,
    }


def _outcome_json(outcome: OutcomeRecord) -> dict[str, JsonValue]:
    return {
        "number": outcome.number,
        "recorded_at": moment(outcome.recorded_at),
        "cause": outcome.cause,
        "validator_version": outcome.validator_version,
    }
