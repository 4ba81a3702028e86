"""Updates: each is stored before it is answered, once, whatever it says (R-007, R-06A); the last one ends the run.

A credential in an update is the one thing that is not stored as it came. The update must not be lost, and the secret
must not be kept, so `[redacted]` stands in its place, and both the answer and the run's record say so (R-169, R-243).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy.exc import DatabaseError

from research_exchange.credentials import find_credential, redact
from research_exchange.documents.gates import Flag
from research_exchange.documents.update import StoredUpdate
from research_exchange.evidence import InlineFile, inline_files
from research_exchange.server.attachments import Attachments
from research_exchange.server.errors import ApiError
from research_exchange.server.folding import Folds
from research_exchange.server.intake import FileAnswer, Intake, Prepared, held_by, prepare_entry
from research_exchange.server.limits import MIB
from research_exchange.server.recording import Recording
from research_exchange.store import Clock, Reader, Store, UpdateHead, Writer

log = logging.getLogger(__name__)

MAX_UPDATES = 20_000
"""Of a run; beyond them only such as end it are stored, and few of these."""
FURTHER_FINAL_UPDATES = 16
MAX_BYTES_OF_UPDATES = 1024 * MIB
"""Of a run; beyond them only small updates are stored."""
SMALL_UPDATE_BYTES = 64 * 1024
_FINAL = ("succeeded", "failed")


@dataclass(frozen=True)
class PostedUpdate:
    stored: StoredUpdate
    is_new: bool
    """False for a retry, which is not stored again."""
    flags: Sequence[Flag]
    """What is odd about this update."""
    files: Sequence[FileAnswer]
    """One for each file that the update carries."""


@dataclass(frozen=True)
class _Delivery:
    """An update as it came, and as it is kept."""

    kept: bytes
    remarks: tuple[str, ...]
    """What was taken out of it."""
    carried: Sequence[InlineFile]
    """Files that it brings with it."""
    elsewhere: Sequence[InlineFile]
    """Files whose bytes have to be fetched."""
    ends_the_run: bool


@dataclass(frozen=True)
class _Before:
    """What a run has when an update is delivered."""

    newest: int
    """The number of its last update; 0 where it has none."""
    key_is_taken: bool
    """Whether an update came with the same key."""
    same: UpdateHead | None
    """The very update, where this is a retry."""


class Updating:
    """The updates of all runs."""

    def __init__(
        self, store: Store, clock: Clock, folds: Folds, recording: Recording, attachments: Attachments
    ) -> None:
        self._store = store
        self._clock = clock
        self._folds = folds
        self._recording = recording
        self._attachments = attachments

    def get(self, run_id: str, sequence: int) -> StoredUpdate:
        with self._store.reading() as reader:
            update = reader.update(run_id, sequence)
        if update is None:
            raise ApiError(404, f"Run {run_id!r} has no update {sequence}.")
        return update

    def post(self, run_id: str, raw: bytes, key: str | None = None, session: str | None = None) -> PostedUpdate:
        """Store an update and the files it carries, and record the outcome when it ends the run.

        Args:
            run_id: A run that is known.
            raw: The bytes as they came.
            key: Names this delivery: the same bytes under the same key are a retry. Bytes equal to the run's last
                update always are. A retry changes nothing and is answered with the number of the first delivery.
            session: The runner's session; by default the newest one that has not ended.

        Raises:
            ApiError: 409 where the run has as many updates as one may have, or as many bytes of them.
        """
        delivery = self._read(raw)
        carried = self._look_at_files(run_id, delivery, key)
        with self._store.writing() as writer:
            before = _before(writer, run_id, delivery, key)
            earlier, remarks = before.same, list[str]()
            if earlier is None:
                _require_room(writer, run_id, delivery, before.newest)
                its_session, remarks = _session(writer, run_id, session)
                remarks += delivery.remarks
                if before.key_is_taken:
                    remarks.append("Its Idempotency-Key came with other bytes before; it is stored without one.")
                stored = writer.append_update(
                    run_id,
                    delivery.kept,
                    its_session,
                    self._clock(),
                    idempotency_key=None if before.key_is_taken else key,
                    after=before.newest,
                )
            else:
                stored = StoredUpdate(earlier.sequence, earlier.received_at, delivery.kept, earlier.session_id)
            files = self._take(writer, run_id, carried, delivery.remarks, stored, is_new=earlier is None)
        files += self._attachments.fetch_for(run_id, stored.sequence, delivery.elsewhere)
        flags = [*self._settle(run_id, stored), *(Flag("R-007", stored.sequence, remark) for remark in remarks)]
        return PostedUpdate(stored, earlier is None, flags, files)

    def _look_at_files(self, run_id: str, delivery: _Delivery, key: str | None) -> list[Prepared]:
        """Those that it brings with it, before anybody holds the lock; of an update that is not taken none is written.

        Raises:
            ApiError: 409 as for `post`.
        """
        if not delivery.carried:
            return []
        with self._store.reading() as reader:
            before = _before(reader, run_id, delivery, key)
            if before.same is None:
                _require_room(reader, run_id, delivery, before.newest)
            held = held_by(reader, self._store.blobs, run_id)
        return [prepare_entry(self._store.blobs, held, entry) for entry in delivery.carried]

    def _take(
        self,
        writer: Writer,
        run_id: str,
        carried: Sequence[Prepared],
        taken_out: Sequence[str],
        update: StoredUpdate,
        *,
        is_new: bool,
    ) -> list[FileAnswer]:
        """Admit or refuse the files that came with an update, and remember what was taken out of it."""
        if not carried and not taken_out:
            return []
        intake = Intake(writer, self._store.blobs, self._clock, run_id)
        files = intake.take(carried, update.sequence)
        if is_new:
            intake.keep_refusals(files, update.sequence)
            if taken_out:
                intake.remark(f"update {update.sequence}", taken_out, update.sequence)
        return files

    def _read(self, raw: bytes) -> _Delivery:
        found, came = find_credential(raw), StoredUpdate(0, self._clock(), raw)
        remarks: tuple[str, ...] = ()
        if found is not None:
            remarks = (
                f"R-243: {found.what} in line {found.line} was replaced by [redacted] before the update was stored; "
                "revoke it if it was real.",
            )
        files = inline_files(came.body or {})
        return _Delivery(
            kept=raw if found is None else redact(raw),
            remarks=remarks,
            carried=[file for file in files if file.source_url is None],
            elsewhere=[file for file in files if file.source_url is not None],
            ends_the_run=(came.body or {}).get("status") in _FINAL,
        )

    def _settle(self, run_id: str, stored: StoredUpdate) -> tuple[Flag, ...]:
        remarks = self._folds.add(run_id, stored)
        if remarks is None:
            with self._store.reading() as reader:
                run = reader.run(run_id)
                assert run is not None, "an update of it is on record"
                remarks = self._folds.remarks(reader, run, stored)
        if remarks.is_final:
            self._record_end(run_id)
        return remarks.flags

    def _record_end(self, run_id: str) -> None:
        """The update is stored and is acknowledged; an outcome that cannot be recorded now is recorded later."""
        try:
            self._recording.settle(run_id)
        except (ApiError, OSError, DatabaseError) as error:
            log.warning("The outcome of %s cannot be recorded yet: %s", run_id, error)


def _before(reader: Reader, run_id: str, delivery: _Delivery, key: str | None) -> _Before:
    newest, keyed = reader.newest_and_keyed(run_id, key)
    digest = sha256(delivery.kept).hexdigest()
    same = next((head for head in (keyed, newest) if head is not None and head.sha256 == digest), None)
    return _Before(0 if newest is None else newest.sequence, keyed is not None, same)


def _require_room(reader: Reader, run_id: str, delivery: _Delivery, newest: int) -> None:
    """One runner must not fill the disk of all: what no honest run comes near is refused."""
    most = MAX_UPDATES + (FURTHER_FINAL_UPDATES if delivery.ends_the_run else 0)
    if newest >= most:
        raise ApiError(
            409,
            f"R-240: {run_id} has {newest:,} updates, as many as a run may have; only one that ends it is taken. "
            "Post less often, with more in each.",
        )
    size = len(delivery.kept)
    if size > SMALL_UPDATE_BYTES and reader.bytes_of_updates(run_id) + size > MAX_BYTES_OF_UPDATES:
        raise ApiError(
            409,
            f"R-240: The updates of {run_id} would have more than {MAX_BYTES_OF_UPDATES:,} bytes; only such of at most "
            f"{SMALL_UPDATE_BYTES:,} are taken. Retain large tables as files of evidence.",
        )


def _session(writer: Writer, run_id: str, named: str | None) -> tuple[str | None, list[str]]:
    """The session that an update belongs to; an update is not lost for naming one that there is not."""
    if named is None:
        return writer.open_session(run_id), []
    session = writer.session(named)
    if session is not None and session.run_id == run_id:
        return named, []
    return writer.open_session(run_id), ["It names a session that this run does not have."]
