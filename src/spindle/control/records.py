"""What is written down about training runs and checkpoints, and its JSON form."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from spindle.backends.contract import LoraShape, ModelInfo, OptimizerConfig
from spindle.control.paths import CheckpointPath


@dataclass(frozen=True)
class TrainingRun:
    """A training run as it was created."""

    run_id: str
    base_model: str
    lora: LoraShape
    optimizer: OptimizerConfig
    created_at: datetime
    user_metadata: Mapping[str, str] = field(default_factory=dict)

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
        )


@dataclass(frozen=True)
class Checkpoint:
    """A saved state or sampler snapshot that is complete on disk."""

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
