"""What is written down about training runs and checkpoints, and its JSON form."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from spindle.backends.contract import LoraShape, ModelInfo, OptimizerConfig
from spindle.control.paths import CheckpointPath

LOCAL = "local"
"""Owner of what was made with the one key of a server that has no named ones."""


@dataclass(frozen=True)
class TrainingRun:
    """A training run as it was created."""

    run_id: str
    base_model: str
    lora: LoraShape
    optimizer: OptimizerConfig
    created_at: datetime
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    owner: str = LOCAL
    project_id: str | None = None
    copied_from: str | None = None
    """The checkpoint that `copy_weights` made this run for; such a run cannot be trained."""

    def to_json(self) -> bytes:
        return _dump(asdict(self))

    @classmethod
    def from_json(cls, content: bytes) -> "TrainingRun":
        record = json.loads(content)
        return cls(
            run_id=record["run_id"],
            base_model=record["base_model"],
            lora=LoraShape(**record["lora"]),
            optimizer=OptimizerConfig(**record["optimizer"]),
            created_at=datetime.fromisoformat(record["created_at"]),
            user_metadata=record["user_metadata"],
            owner=record.get("owner", LOCAL),
            project_id=record.get("project_id"),
            copied_from=record.get("copied_from"),
        )


@dataclass(frozen=True)
class Checkpoint:
    """A saved state, sampler snapshot or export that is complete on disk."""

    path: CheckpointPath
    directory: Path
    base_model: str
    lora: LoraShape
    optimizer: OptimizerConfig
    step: int
    """Optimizer steps behind it."""
    size_bytes: int
    created_at: datetime
    expires_at: datetime | None = None
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    public: bool = False
    """Whether other owners may read it."""

    def expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def files(self) -> dict[str, Path]:
        """Its files by their path below the directory."""
        found = sorted(path for path in self.directory.rglob("*") if path.is_file())
        return {path.relative_to(self.directory).as_posix(): path for path in found}

    def to_json(self) -> bytes:
        return _dump(asdict(self) | {"path": str(self.path), "directory": self.directory.name})

    @classmethod
    def from_json(cls, content: bytes, folder: Path) -> "Checkpoint":
        """Read what lies in `folder`, beside the checkpoint's directory."""
        record = json.loads(content)
        expires = record["expires_at"]
        return cls(
            path=CheckpointPath.parse(record["path"]),
            directory=folder / record["directory"],
            base_model=record["base_model"],
            lora=LoraShape(**record["lora"]),
            optimizer=OptimizerConfig(**record["optimizer"]),
            step=record["step"],
            size_bytes=record["size_bytes"],
            created_at=datetime.fromisoformat(record["created_at"]),
            expires_at=None if expires is None else datetime.fromisoformat(expires),
            user_metadata=record["user_metadata"],
            public=record.get("public", False),
        )


@dataclass(frozen=True)
class SaveOptions:
    """What a client may say about a checkpoint."""

    overwrite: bool = False
    ttl_seconds: int | None = None
    user_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Staged:
    """A checkpoint being written: an empty directory that nobody else sees."""

    path: CheckpointPath
    directory: Path
    info: ModelInfo
    options: SaveOptions


def _dump(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, indent=1, default=datetime.isoformat).encode()
