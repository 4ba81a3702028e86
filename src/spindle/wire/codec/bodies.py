"""Bodies as they arrive: compressed within bounds, and readable at least as far as whose they are."""

import zstandard
from google.protobuf.message import DecodeError

from spindle.wire import schema_pb2 as schema

_PIECE = 1 << 20
_OPENING = 256
"""Bytes at the start of a gradient request that hold its model_id and seq_id."""


class BodyError(Exception):
    """A body that cannot be read at all; one sentence."""


def decompress(body: bytes, limit: int) -> bytes:
    """A zstd body, read as a stream so that a small one cannot unpack into more than `limit` bytes."""
    content = bytearray()
    try:
        announced = zstandard.frame_content_size(body)
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            while piece := reader.read(_PIECE):
                content += piece
                if len(content) > limit:
                    raise BodyError(
                        f"The body unpacks to more than {limit} bytes, the limit body_bytes of this server; "
                        "send less in one request."
                    )
    except zstandard.ZstdError as error:
        raise BodyError(f"The body is not valid zstd ({error}).") from error
    if announced not in (-1, len(content)):
        raise BodyError(f"The zstd body ends early: {len(content)} of {announced} bytes.")
    return bytes(content)


def address_of(body: bytes, *, compressed: bool) -> tuple[str, int] | None:
    """The model_id and seq_id of a gradient request that is damaged or cut further on; None where they are not there.

    Fields are written by ascending number, so these two come first. A message cut within a field does not parse,
    so the shortest beginning that parses and has both has them whole.
    """
    opening = _unpacked_opening(body) if compressed else body[:_OPENING]
    for length in range(1, len(opening) + 1):
        try:
            message = schema.ForwardBackwardRequest.FromString(opening[:length])
        except DecodeError:
            continue
        if message.model_id and message.seq_id:
            return message.model_id, message.seq_id
    return None


def _unpacked_opening(body: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().stream_reader(body).read(_OPENING)
    except zstandard.ZstdError:
        return b""
