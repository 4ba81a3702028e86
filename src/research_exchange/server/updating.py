"""Updates: each is stored before it is answered, once, whatever it says (R-007, R-06A); the last one ends the run.

A credential in an update is the one thing that is not stored as it came. The update must not be lost, and the secret
must not be kept, so `[redacted]` stands in its place, and both the answer and the run's record say so (R-169, R-243).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from research_exchange.store import Clock, Reader, Standing, Store, Writer

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

    update: StoredUpdate
    """As it is kept, without a place among the run's updates yet."""
    remarks: tuple[str, ...]
    """What was taken out of it."""
    carried: Sequence[InlineFile]
    """Files that it brings with it."""
    elsewhere: Sequence[InlineFile]
    """Files whose bytes have to be fetched."""
    ends_the_run: bool


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
            standing, remarks = writer.standing(run_id, key), list[str]()
            earlier = _delivered_before(standing, delivery)
            if earlier is None:
                _require_room(writer, run_id, delivery, standing)
                its_session, remarks = _session(writer, run_id, session, standing)
                remarks += delivery.remarks
                if standing.keyed is not None:
                    remarks.append("Its Idempotency-Key came with other bytes before; it is stored without one.")
                stored = writer.append_update(
                    run_id,
                    delivery.update.raw,
                    its_session,
                    self._clock(),
                    idempotency_key=key if standing.keyed is None else None,
                    after=standing.last_number,
                ).sharing(delivery.update)
            else:
                stored = _on_record(writer, run_id, earlier)
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
            standing = reader.standing(run_id, key)
            if _delivered_before(standing, delivery) is None:
                _require_room(reader, run_id, delivery, standing)
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
        # What is taken out of the update is still looked for in its files.
        body = came.body or {}
        files = inline_files(body)
        return _Delivery(
            update=came if found is None else replace(came, raw=redact(raw)),
            remarks=remarks,
            carried=[file for file in files if file.source_url is None],
            elsewhere=[file for file in files if file.source_url is not None],
            ends_the_run=body.get("status") in _FINAL,
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


def _delivered_before(standing: Standing, delivery: _Delivery) -> int | None:
    """The number under which the very update is on record, where this is a retry."""
    for mark in (standing.keyed, standing.newest):
        if mark is not None and mark.sha256 == delivery.update.sha256:
            return mark.sequence
    return None


def _on_record(reader: Reader, run_id: str, sequence: int) -> StoredUpdate:
    update = reader.update(run_id, sequence)
    assert update is not None, "the same transaction has found it"
    return update


def _require_room(reader: Reader, run_id: str, delivery: _Delivery, standing: Standing) -> None:
    """One runner must not fill the disk of all: what no honest run comes near is refused."""
    number, most = standing.last_number, MAX_UPDATES + (FURTHER_FINAL_UPDATES if delivery.ends_the_run else 0)
    if number >= most:
        raise ApiError(
            409,
            f"R-240: {run_id} has {number:,} updates, as many as a run may have; only one that ends it is taken. "
            "Post less often, with more in each.",
        )
    size = len(delivery.update.raw)
    if size > SMALL_UPDATE_BYTES and reader.bytes_of_updates(run_id) + size > MAX_BYTES_OF_UPDATES:
        raise ApiError(
            409,
            f"R-240: The updates of {run_id} would have more than {MAX_BYTES_OF_UPDATES:,} bytes; only such of at most "
            f"{SMALL_UPDATE_BYTES:,} are taken. Retain large tables as files of evidence.",
        )


def _session(reader: Reader, run_id: str, named: str | None, standing: Standing) -> tuple[str | None, list[str]]:
    """The session that an update belongs to; an update is not lost for naming one that there is not."""
    if named is None:
        return standing.open_session, []
    session = reader.session(named)
    if session is not None and session.run_id == run_id:
        return named, []
    return standing.open_session, ["It names a session that this run does not have."]
