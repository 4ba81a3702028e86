"""Batches that arms share, batches that one arm has for itself, and the record of what each really consumed (§16)."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from research_exchange.client import GateReading, Run
from research_exchange.documents.manifests import batch_hash
from research_exchange.harness.errors import HarnessError

__all__ = ["Batch", "Consumption", "PairedBatches", "publish_manifests"]

_GATE = "adaptation_manifests"


class _Named(Protocol):
    @property
    def id(self) -> str: ...


ItemT = TypeVar("ItemT", bound=_Named)


@dataclass(frozen=True)
class Batch(Generic[ItemT]):
    """Some items, under an id that their own ids make up: another item, another id."""

    items: tuple[ItemT, ...]

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps([item.id for item in self.items]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PairedBatches(Generic[ItemT]):
    """The first batches of a list are for every arm, the next for the warm-up of one (R-180)."""

    shared: tuple[Batch[ItemT], ...]
    warm_up: tuple[Batch[ItemT], ...]

    @classmethod
    def cut(cls, items: Sequence[ItemT], *, size: int, shared: int, warm_up: int = 0) -> "PairedBatches[ItemT]":
        """Cut `shared + warm_up` disjoint batches of `size` items from the beginning of a list.

        Raises:
            HarnessError: there are too few items, or one of those used stands in the list twice.
        """
        used = items[: size * (shared + warm_up)]
        if len(used) < size * (shared + warm_up):
            raise HarnessError(f"{shared + warm_up} batches of {size} items take more than the {len(items)} there are.")
        if len({item.id for item in used}) < len(used):
            raise HarnessError("An item stands in the list twice; batches of a pair are disjoint (R-180).")
        batches = tuple(Batch(tuple(used[start : start + size])) for start in range(0, len(used), size))
        return cls(batches[:shared], batches[shared:])

    def consumption(self) -> "Consumption[ItemT]":
        """A record for one training, empty yet."""
        return Consumption(self)


@dataclass
class Consumption(Generic[ItemT]):
    """What one training consumed: a batch is on record once the loop asks for the next one or ends."""

    batches: PairedBatches[ItemT]
    shared_ids: list[str] = field(default_factory=list)
    warm_up_ids: list[str] = field(default_factory=list)

    def warm_up(self) -> Iterator[Batch[ItemT]]:
        """The batches that this training has for itself, before the shared ones."""
        return _recorded(self.batches.warm_up, self.warm_up_ids)

    def shared(self) -> Iterator[Batch[ItemT]]:
        """The batches that it shares with its partner, in their order."""
        return _recorded(self.batches.shared, self.shared_ids)

    def manifest(self, arm: str, pair: str) -> dict[str, Any]:
        """The entry of an arm (R-181)."""
        return {
            "arm": arm,
            "pair": pair,
            "warmup_batches": len(self.warm_up_ids),
            "adaptation_batch_ids": list(self.shared_ids),
            "adaptation_batch_hash": batch_hash(self.shared_ids),
        }


def publish_manifests(run: Run, pair: str, arms: dict[str, Consumption[Any]]) -> GateReading:
    """Report what the arms of a pair consumed and ask whether it was the same."""
    run.update(adaptation_manifests=[consumption.manifest(arm, pair) for arm, consumption in arms.items()])
    return run.gate(_GATE)


def _recorded(batches: Sequence[Batch[ItemT]], ids: list[str]) -> Iterator[Batch[ItemT]]:
    for batch in batches:
        yield batch
        ids.append(batch.id)
