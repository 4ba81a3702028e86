"""The order of one model's commands: strictly by sequence id, whatever order they arrive in."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass
class OrderedQueue(Generic[Item]):
    """Hands out items by ascending sequence id without holes, one at a time.

    Requests of a training client arrive out of order (of five chunks, the first is sent last), so a missing id means
    "not here yet", and its successors are parked.
    """

    clock_started: float
    """When the wait for `next_id` began, in the clock's seconds; used for gaps only."""
    next_id: int = 0
    busy: bool = False
    """An item was taken and is not finished."""
    hurried_until: float = float("-inf")
    """Until then a missing id is given up sooner: one is known to have been refused."""
    _parked: dict[int, Item] = field(default_factory=dict)

    def put(self, sequence_id: int, item: Item, now: float) -> bool:
        """Park an item. False when that id has had its turn already, or is taken."""
        if sequence_id < self.next_id or sequence_id in self._parked:
            return False
        if not self._parked:
            self.clock_started = now
        self._parked[sequence_id] = item
        return True

    @property
    def ready(self) -> Item | None:
        """The item whose turn it is."""
        return None if self.busy else self._parked.get(self.next_id)

    def take(self) -> Item:
        """Start the ready item; nothing else is ready until `finish`."""
        item = self._parked.pop(self.next_id)
        self.next_id += 1
        self.busy = True
        return item

    def finish(self, now: float) -> None:
        """The taken item is done."""
        self.busy = False
        self.clock_started = now

    def overdue(self, now: float, limit: float) -> bool:
        """Whether something has been parked for `limit` seconds behind an id that never arrived."""
        waiting = bool(self._parked) and not self.busy and self.ready is None
        return waiting and now - self.clock_started >= limit

    def skip(self) -> list[Item]:
        """Give up on the missing ids: drop everything parked, and go on behind it."""
        dropped = [self._parked[sequence_id] for sequence_id in sorted(self._parked)]
        self.next_id = max(self._parked, default=self.next_id - 1) + 1
        self._parked.clear()
        return dropped
