"""Which keeper of bytes a URL names."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from research_exchange.store.blobs.contract import BlobStore, StorageUnreachable
from research_exchange.store.blobs.folder import FolderBlobs
from research_exchange.store.blobs.s3 import S3Blobs, S3Place

_FORM = "s3://BUCKET/PREFIX, with ?endpoint=URL and &region=NAME where the store is not Amazon's"


def open_blobs(url: str | None, data: Path, environment: Mapping[str, str] = os.environ) -> BlobStore:
    """The evidence at `url`, or in the data folder.

    Args:
        url: `s3://bucket/prefix?endpoint=https://…&region=…`; None keeps the bytes in `<data>/blobs`.
        data: The data folder; bytes on their way to S3 pass through `<data>/incoming`.
        environment: Holds AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and may hold AWS_SESSION_TOKEN, AWS_ENDPOINT_URL
            and AWS_REGION.

    Raises:
        StorageUnreachable: The URL is of another form, the credentials are missing, or the store refuses them.
    """
    if url is None:
        return FolderBlobs(data / "blobs")
    incoming = data / "incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    blobs = S3Blobs(_place(url, environment), incoming)
    blobs.check()
    return blobs


def _place(url: str, environment: Mapping[str, str]) -> S3Place:
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme != "s3" or not parts.hostname or parts.username or set(options) - {"endpoint", "region"}:
        # A URL of another form may carry a password, so it is not repeated.
        raise StorageUnreachable(f"The evidence URL must have the form {_FORM}.")
    missing = [name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not environment.get(name)]
    if missing:
        raise StorageUnreachable(f"To keep evidence in s3://{parts.netloc}, set {' and '.join(missing)}.")
    return S3Place(
        bucket=parts.netloc,
        prefix=parts.path.strip("/"),
        endpoint=options.get("endpoint") or environment.get("AWS_ENDPOINT_URL"),
        region=options.get("region") or environment.get("AWS_REGION") or "us-east-1",
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        session_token=environment.get("AWS_SESSION_TOKEN"),
    )
