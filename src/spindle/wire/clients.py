"""What clients of older SDKs cannot read, and so are not sent."""

from fastapi import Request

LONGEST = 32
"""Characters of a version."""
SUPPORTED = (0, 25)
"""The first version that is served in full."""
_EXTERNAL = (0, 28)
"""The first version that knows checkpoints of the type `external`; one such row fails an older one's whole list."""
_TYPE_ONLY = ((0, 29), (0, 30))
"""Versions that refuse an optimizer configuration with more in it than its type."""


def client_version(request: Request) -> tuple[int, ...] | None:
    """Major and minor version of the SDK that asks; None for other programs."""
    parts = request.headers.get("x-stainless-package-version", "")[:LONGEST].split(".")[:2]
    return tuple(int(part) for part in parts) if len(parts) == 2 and all(part.isdecimal() for part in parts) else None


def reads_external(request: Request) -> bool:
    """Whether lists may have external checkpoints in them."""
    version = client_version(request)
    return version is None or version >= _EXTERNAL


def reads_hyperparameters(request: Request) -> bool:
    """Whether an optimizer configuration may say more than its type."""
    return client_version(request) not in _TYPE_ONLY
