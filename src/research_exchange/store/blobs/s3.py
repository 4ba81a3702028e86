"""Evidence bytes in an S3-compatible store.

A blob is written under its hash with `If-None-Match: *`, so that no writer can replace what another one has put there;
only bytes found to be damaged are written over. Large ones go in parts.
"""

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.store.blobs.contract import MISSING, RENEW_AFTER_SECONDS, StorageUnreachable, StoredBlob, expect
from research_exchange.store.blobs.incoming import Incoming, incoming_file, remove_old_incoming

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Store

PART_BYTES = 5 * 1024 * 1024
"""Larger blobs are sent in parts of this size, the smallest that S3 takes."""


@dataclass(frozen=True)
class S3Place:
    """A bucket, a prefix in it, and how to get there."""

    bucket: str
    prefix: str
    endpoint: str | None
    """None for Amazon's own."""
    region: str
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


class S3Blobs:
    """Content-addressed objects `<prefix>/ab/cdef…`; the same bytes are kept once."""

    def __init__(self, place: S3Place, incoming: Path) -> None:
        """
        Args:
            place: Where the blobs are.
            incoming: A folder of this machine for bytes on their way in.
        """
        self._place = place
        self._incoming = incoming
        self._store = _connect(place)

    def check(self) -> None:
        """Ask the store for something, to learn whether it answers.

        Raises:
            StorageUnreachable: It does not, or does not let us in.
        """
        self.state("0" * 64)

    def receive(self, limit: int) -> AbstractContextManager[Incoming]:
        return incoming_file(self._incoming, limit, self._keep)

    def put(self, content: bytes) -> str:
        return self.put_stream([content], len(content)).sha256

    def put_stream(self, chunks: Iterable[bytes], limit: int) -> StoredBlob:
        with self.receive(limit) as incoming:
            for chunk in chunks:
                incoming.write(chunk)
            return incoming.keep()

    def read(self, sha256: str) -> bytes:
        content = io.BytesIO()
        self._download(sha256, content)
        return content.getvalue()

    def open(self, sha256: str) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._incoming)  # noqa: SIM115 (handed on to the caller)
        try:
            self._download(sha256, file)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file

    def state(self, sha256: str) -> str:
        import obstore

        try:
            with self._reachable():
                found = obstore.head(self._store, _key(sha256))
        except FileNotFoundError:
            return MISSING
        return f"{found['size']}-{found['e_tag']}"

    def digests(self, older_than_seconds: float = 0) -> Iterator[str]:
        import obstore

        with self._reachable():
            for page in obstore.list(self._store):
                for found in page:
                    digest = found["path"].replace("/", "")
                    if len(digest) == 64 and _age(found) >= older_than_seconds:
                        yield digest

    def remove(self, sha256: str, older_than_seconds: float = 0) -> bool:
        import obstore

        try:
            with self._reachable():
                is_old = _age(obstore.head(self._store, _key(sha256))) >= older_than_seconds
                if is_old:
                    obstore.delete(self._store, _key(sha256))
        except FileNotFoundError:
            return False
        return is_old

    def remove_leftovers(self, older_than_seconds: float) -> int:
        return remove_old_incoming(self._incoming, older_than_seconds)

    def _keep(self, incoming: Incoming) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        key = _key(incoming.sha256)
        with self._reachable():
            if incoming.size > PART_BYTES:
                # An upload in parts cannot be conditional here; it is of these very bytes, whoever comes first.
                if not self._is_intact_and_new(incoming.sha256):
                    obstore.put(self._store, key, incoming.path, use_multipart=True, chunk_size=PART_BYTES)
                return
            try:
                obstore.put(self._store, key, incoming.path, mode="create")
            except AlreadyExistsError:
                if not self._is_intact_and_new(incoming.sha256):
                    obstore.put(self._store, key, incoming.path, use_multipart=False)

    def _download(self, sha256: str, target: IO[bytes]) -> None:
        import obstore

        hashed = hashlib.sha256()
        try:
            with self._reachable():
                for chunk in obstore.get(self._store, _key(sha256)).stream():
                    hashed.update(chunk)
                    target.write(chunk)
        except FileNotFoundError:
            raise EvidenceLost(f"nothing in the place of {sha256[:12]} in {self._place}") from None
        expect(sha256, hashed.hexdigest())

    def _is_intact_and_new(self, sha256: str) -> bool:
        """Whether nothing need be written: an old object is written again, since S3 knows no other way to renew one."""
        import obstore

        try:
            self.read(sha256)
            return _age(obstore.head(self._store, _key(sha256))) <= RENEW_AFTER_SECONDS
        except (EvidenceLost, FileNotFoundError):
            return False

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except AlreadyExistsError:
            raise
        except BaseError as error:
            raise StorageUnreachable(
                f"The evidence store {self._place} cannot be used: {_first_line(error)}."
            ) from error


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:]}"


def _age(found: "ObjectMeta") -> float:
    return (datetime.now(UTC) - found["last_modified"]).total_seconds()


def _connect(place: S3Place) -> "S3Store":
    try:
        from obstore.store import S3Store
    except ImportError:
        raise StorageUnreachable(
            "Keeping evidence in S3 takes a further package: pip install 'research-exchange[s3]'."
        ) from None

    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config={
            "access_key_id": place.access_key_id,
            "secret_access_key": place.secret_access_key,
            "region": place.region,
            "conditional_put": "etag",
            **({"endpoint": place.endpoint} if place.endpoint else {}),
            **({"session_token": place.session_token} if place.session_token else {}),
        },
        client_options={
            "allow_http": (place.endpoint or "").startswith("http://"),
            "timeout": timedelta(seconds=60),
            "connect_timeout": timedelta(seconds=5),
        },
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
    )


def _first_line(error: Exception) -> str:
    """What happened, without the client's advice and without signed addresses."""
    return str(error).splitlines()[0].partition("?")[0].rstrip(".")
