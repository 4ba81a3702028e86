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
    Admission,
    AdmissionStatus,
    InlineFile,
    source_url_problems,
)
from research_exchange.server.errors import ApiError
from research_exchange.server.intake import FileAnswer, Intake, Prepared, prepare, prepare_incoming, refused_entry
from research_exchange.store import Clock, Incoming, Store


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
    request, and is cleared away after a day in which no document has pointed to it.
    """

    _OWN = re.compile(r"/attachments/([0-9a-f]{64})/[^/?#]+")

    def __init__(self, store: Store, clock: Clock, fetcher: Fetches) -> None:
        self._store = store
        self._clock = clock
        self._fetcher = fetcher

    def fetch(self, file: InlineFile) -> Prepared:
        """A file's bytes, or why they were not fetched. The address is neither kept nor shown."""
        assert file.source_url is not None, "somebody else handles content"
        own = self._OWN.fullmatch(file.source_url)
        if own is not None:
            return self._handed_in(file, own[1])
        problems = source_url_problems(file.source_url, self._fetcher.hosts, f"{file.path}.source_url")
        if problems:
            return refused_entry(replace(file, problems=problems))
        try:
            content = self._fetcher.fetch(file.source_url, MAX_FILE_BYTES)
        except FetchRefused as refused:
            found = Problem("R-166", f"{file.path}.source_url", "bytes to fetch", str(refused), "Send the content.")
            return refused_entry(replace(file, problems=(found,)))
        return prepare(self._store.blobs, file.name, file.kind, content, file.declared_sha256)

    def attach(self, name: str, incoming: Incoming) -> Attached | Admission:
        """Keep bytes for documents to point to, unless no run could retain them under this name."""
        prepared = prepare_incoming(incoming, name, "other", None)
        if prepared.refused is not None:
            return prepared.refused
        url = f"/attachments/{prepared.offer.sha256}/{quote(name, safe='')}"
        return Attached(url, prepared.offer.sha256, prepared.offer.size)

    def read(self, sha256: str) -> bytes:
        """What was handed in here.

        Raises:
            ApiError: 404 where nothing has this hash.
        """
        try:
            return self._store.blobs.read(sha256)
        except EvidenceLost:
            raise ApiError(404, "Nothing was handed in here with this hash, or no document pointed to it.") from None

    def _handed_in(self, file: InlineFile, sha256: str) -> Prepared:
        try:
            content = self.read(sha256)
        except ApiError as missing:
            found = Problem("R-166", f"{file.path}.source_url", "bytes to fetch", missing.sentence, "Send the content.")
            return refused_entry(replace(file, problems=(found,)))
        return prepare(self._store.blobs, file.name, file.kind, content, file.declared_sha256)

    def fetch_for(self, run_id: str, update: int, files: Sequence[InlineFile]) -> list[FileAnswer]:
        """Fetch the files that an update names, after it is stored: it must not wait for another machine."""
        if not files:
            return []
        with self._store.reading() as reader:
            held = {record.name: record for record in reader.evidence(run_id) if record.update == update}
        wanted = [file for file in files if file.name not in held]
        prepared = [*map(self.fetch, wanted[:MAX_FILES]), *map(_not_fetched, wanted[MAX_FILES:])]
        with self._store.writing() as writer:
            intake = Intake(writer, self._store.blobs, self._clock, run_id)
            answers = intake.take(prepared, update)
            intake.keep_refusals(answers, update)
        known = [held[file.name] for file in files if file.name in held]
        return answers + [
            FileAnswer(file.name, Admission(AdmissionStatus.UNCHANGED, file.kind, file.sha256)) for file in known
        ]


def _not_fetched(file: InlineFile) -> Prepared:
    """One of more files than any run may have (R-163): nobody waits for them."""
    expected, action = f"at most {MAX_FILES} files in a run", "Put related records into one file."
    found = Problem("R-163", file.path, expected, "one more", action)
    return refused_entry(replace(file, problems=(found,)))
