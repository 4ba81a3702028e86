"""Runs and checkpoints as JSON, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from spindle.backends.contract import UserError
from spindle.control.library import Library
from spindle.control.paths import Kind
from spindle.control.records import Checkpoint, TrainingRun
from spindle.wire.clients import reads_external

Json = dict[str, Any]
Item = TypeVar("Item")

MOST_ROWS = 1000
"""Rows of one page; clients that want more ask again."""

TYPES = {Kind.TRAINING: "training", Kind.SAMPLER: "sampler", Kind.EXTERNAL: "external"}


@dataclass(frozen=True)
class Page:
    """Which rows of a list are wanted."""

    limit: int
    offset: int

    @classmethod
    def of(cls, limit: int, offset: int) -> "Page":
        if limit < 0 or offset < 0:
            raise UserError(f"limit is {limit} and offset {offset}; neither can be negative.")
        return cls(min(limit, MOST_ROWS), offset)

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        return items[self.offset : self.offset + self.limit]

    def cursor(self, total: int) -> Json:
        return {"offset": self.offset, "limit": self.limit, "total_count": total}


def checkpoint_row(checkpoint: Checkpoint) -> Json:
    path = checkpoint.path
    return {
        "checkpoint_id": f"{path.kind}/{path.name}",
        "checkpoint_type": TYPES[path.kind],
        "time": checkpoint.created_at.isoformat(),
        "tinker_path": str(path),
        "size_bytes": checkpoint.size_bytes,
        "public": checkpoint.public,
        "user_metadata": dict(checkpoint.user_metadata),
        "expires_at": None if checkpoint.expires_at is None else checkpoint.expires_at.isoformat(),
    }


def run_row(library: Library, owner: str, run: TrainingRun) -> Json:
    """A run as one owner sees it: of somebody else's, only what is public."""
    seen = library.checkpoints(owner, run.run_id)
    last = {
        kind: next((found for found in seen if found.path.kind is kind), None) for kind in (Kind.TRAINING, Kind.SAMPLER)
    }
    rows = {kind: None if found is None else checkpoint_row(found) for kind, found in last.items()}
    return {
        "training_run_id": run.run_id,
        "base_model": run.base_model,
        "model_owner": run.owner,
        "is_lora": True,
        "lora_rank": run.lora.rank,
        "corrupted": library.catalogue.index.corrupted(run.run_id),
        "last_request_time": library.last_request(run).isoformat(),
        "last_checkpoint": rows[Kind.TRAINING],
        "last_sampler_checkpoint": rows[Kind.SAMPLER],
        "user_metadata": dict(run.user_metadata),
    }


def known_to_client(request: Request, checkpoints: Sequence[Checkpoint]) -> Sequence[Checkpoint]:
    """What the asking client can read: an old one only knows two types."""
    if reads_external(request):
        return checkpoints
    return [checkpoint for checkpoint in checkpoints if checkpoint.path.kind is not Kind.EXTERNAL]
