"""What was run, with which settings, from which code: the documents a reviewer starts from (R-162)."""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("research-exchange", "tinker", "numpy")
"""Whose versions can change a result on this side of the wire."""


def effective_config(**settings: Any) -> str:
    """The settings that were really used, as indented JSON."""
    return json.dumps(settings, indent=2, allow_nan=False, default=_plain) + "\n"


def code_revision(script: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The script's hash, the revision it came from and the packages it ran with, as indented JSON.

    `rx run` finds out the revision of the folder that holds the spec and passes it as RX_CODE_REVISION.
    """
    document = {
        "revision": environment.get("RX_CODE_REVISION") or "unknown",
        "script": {"name": script.name, "sha256": hashlib.sha256(script.read_bytes()).hexdigest()},
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }
    return json.dumps(document, indent=2) + "\n"


def _plain(value: Any) -> Any:
    """Objects of the SDK (pydantic models) as plain JSON."""
    return value.model_dump(mode="json")
