"""Files that a document names by the address of an attachment: fetched once, then treated as any other (R-166)."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.gates import Problem
from research_exchange.evidence import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_RUN_BYTES,
    Admission,
    AdmissionStatus,
    InlineFile,
    source_url_problems,
)
from research_exchange.server.errors import ApiError
from research_exchange.server.intake import (
    FileAnswer,
    Intake,
    Prepared,
    held_by,
    prepare,
    prepare_incoming,
    refused_entry,
)
from research_exchange.store import Clock, Incoming, Reader, Store


class FetchRefused(Exception):
    """Why nothing was fetched: one sentence, which never repeats the address."""


class Fetches(Protocol):
    """What gets the bytes at an address of a host on its list."""

    @property
    def hosts(self) -> Collection[str]: ...

    def fetch(self, url: str, limit: int) -> bytes:
        """The bytes, at most `limit` of them.

        Raises:
            FetchRefused: It did not get them.
        """
        ...


@dataclass(frozen=True)
class Attached:
    """Bytes that were handed in for documents to point to."""

    source_url: str
    sha256: str
    size: int


class Attachments:
    """Fetches what documents point to; it holds no lock while it waits for another machine.

    This Exchange is an attachment service itself: what was handed in here is named by its own hash, is read without a
    request, and is cleared away after a day in which no document has pointed to it. A run's documents point to what its
    own runner handed in: who knows the hash of another run's bytes does not get them so.
    """

    _OWN = re.compile(r"/attachments/([0-9a-f]{64})/[^/?#]+")

    def __init__(self, store: Store, clock: Clock, fetcher: Fetches) -> None:
        self._store = store
        self._clock = clock
        self._fetcher = fetcher

    def fetch(self, run_id: str, file: InlineFile) -> Prepared:
        """The bytes of a file of a run, or why they were not fetched. The address is neither kept nor shown."""
        assert file.source_url is not None, "somebody else handles content"
        own = self._OWN.fullmatch(file.source_url)
        if own is not None:
            return self._handed_in(run_id, file, own[1])
        problems = source_url_problems(file.source_url, self._fetcher.hosts, f"{file.path}.source_url")
        if problems:
            return refused_entry(replace(file, problems=problems))
        try:
            content = self._fetcher.fetch(file.source_url, MAX_FILE_BYTES)
        except FetchRefused as refused:
            found = Problem("R-166", f"{file.path}.source_url", "bytes to fetch", str(refused), "Send the content.")
            return refused_entry(replace(file, problems=(found,)))
        return self._prepared(run_id, file, content)

    def attach(self, run_id: str, name: str, incoming: Incoming) -> Attached | Admission:
        """Keep bytes for a run's documents to point to, unless the run could not retain them under this name.

        A run's attachments are held to what its evidence may be (R-163), so that nobody fills the disk with them.
        """
        with self._store.reading() as reader:
            if over := _over_the_caps(reader, run_id, name, incoming):
                return over
        prepared = prepare_incoming(incoming, (), name, "other", None)
        if prepared.refused is not None:
            return prepared.refused
        with self._store.writing() as writer:
            if over := _over_the_caps(writer, run_id, name, incoming):
                return over
            if not writer.is_attached(prepared.offer.sha256, run_id):
                writer.add_attachment(run_id, prepared.offer.sha256, prepared.offer.size, self._clock())
        url = f"/attachments/{prepared.offer.sha256}/{quote(name, safe='')}"
        return Attached(url, prepared.offer.sha256, prepared.offer.size)

    def read(self, sha256: str, run_id: str | None = None) -> bytes:
        """What was handed in here, by the runner of this run where one is named.

        Raises:
            ApiError: 404 where nothing that was handed in so has this hash.
        """
        with self._store.reading() as reader:
            is_known = reader.is_attached(sha256, run_id)
        try:
            if is_known:
                return self._store.blobs.read(sha256)
        except EvidenceLost:
            pass
        whose = "here" if run_id is None else f"for {run_id}"
        raise ApiError(404, f"Nothing was handed in {whose} with this hash, or no document pointed to it.")

    def _handed_in(self, run_id: str, file: InlineFile, sha256: str) -> Prepared:
        try:
            content = self.read(sha256, run_id)
        except ApiError as missing:
            found = Problem("R-166", f"{file.path}.source_url", "bytes to fetch", missing.sentence, "Send the content.")
            return refused_entry(replace(file, problems=(found,)))
        return self._prepared(run_id, file, content)

    def _prepared(self, run_id: str, file: InlineFile, content: bytes) -> Prepared:
        with self._store.reading() as reader:
            held = held_by(reader, self._store.blobs, run_id)
        return prepare(self._store.blobs, held, file.name, file.kind, content, file.declared_sha256)

    def fetch_for(self, run_id: str, update: int, files: Sequence[InlineFile]) -> list[FileAnswer]:
        """Fetch the files that an update names, after it is stored: it must not wait for another machine."""
        if not files:
            return []
        with self._store.reading() as reader:
            held = {record.name: record for record in reader.evidence(run_id) if record.update == update}
        wanted = [file for file in files if file.name not in held]
        fetched = [self.fetch(run_id, file) for file in wanted[:MAX_FILES]]
        prepared = [*fetched, *map(_not_fetched, wanted[MAX_FILES:])]
        with self._store.writing() as writer:
            intake = Intake(writer, self._store.blobs, self._clock, run_id)
            answers = intake.take(prepared, update)
            intake.keep_refusals(answers, update)
        known = [held[file.name] for file in files if file.name in held]
        return answers + [
            FileAnswer(file.name, Admission(AdmissionStatus.UNCHANGED, file.kind, file.sha256)) for file in known
        ]


def _over_the_caps(reader: Reader, run_id: str, name: str, incoming: Incoming) -> Admission | None:
    """Why these bytes are more than a run may have handed in; None where they are not, or are there already."""
    if reader.is_attached(incoming.sha256, run_id):
        return None
    so_far = reader.handed_in(run_id)
    checks = (
        (so_far.files + 1, MAX_FILES, "attachments in a run"),
        (so_far.bytes + incoming.size, MAX_RUN_BYTES, "bytes in the attachments of a run"),
    )
    problems = tuple(
        Problem("R-163", name, f"at most {most} {what}", f"{count}", "Point to what was handed in, or upload evidence.")
        for count, most, what in checks
        if count > most
    )
    return Admission(AdmissionStatus.REJECTED, "other", incoming.sha256, problems) if problems else None


def _not_fetched(file: InlineFile) -> Prepared:
    """One of more files than any run may have (R-163): nobody waits for them."""
    expected, action = f"at most {MAX_FILES} files in a run", "Put related records into one file."
    found = Problem("R-163", file.path, expected, "one more", action)
    return refused_entry(replace(file, problems=(found,)))
