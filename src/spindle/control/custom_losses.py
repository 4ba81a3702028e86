"""Losses that clients upload: checked once, kept with their session, named by later gradient requests."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from spindle.backends.contract import CustomLoss, UserError
from spindle.control.lost import Lost, session_of
from spindle.control.promises import Promise, PromiseBook, failed
from spindle.control.results import LossStored
from spindle.control.sessions import Sessions

CUSTOM = "custom"
"""The loss_fn of a gradient request that names an uploaded loss by its configuration's `loss_id`."""
MOST = 256
"""Losses that one session may keep."""


@dataclass
class CustomLosses:
    """The uploaded losses of all live sessions."""

    sessions: Sessions
    promises: PromiseBook
    lost: Lost
    check: Callable[[CustomLoss], None]
    """Raises `UserError` for a graph that is not allowed; takes a bounded time."""
    _losses: dict[str, CustomLoss | None] = field(default_factory=dict)
    """None while it is being checked."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _checker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "spindle-loss-check"))

    def create(
        self, session_id: str, number: int, name: str, inputs: Mapping[str, int], graph: Mapping[str, Any]
    ) -> Promise:
        """Check and keep a loss; a repeated number gives the same promise."""
        loss_id = loss_name(session_id, number)

        def store() -> LossStored:
            loss = CustomLoss(loss_id, name, inputs, graph)
            try:
                self.check(loss)
            except Exception:
                self._forget([loss_id])
                raise
            with self._lock:
                if loss_id in self._losses:  # else its session ended meanwhile
                    self._losses[loss_id] = loss
            return LossStored(loss_id)

        def start() -> Future[Any]:
            if session_id not in self.sessions.live():
                raise self.lost.session(session_id)
            if len(self._of_session(session_id)) >= MOST:
                raise UserError(f"This session has {MOST} uploaded losses already; use one of them again.")
            with self._lock:
                self._losses[loss_id] = None
            checked = self._checker.submit(store)
            checked.add_done_callback(lambda ended: self._forget([loss_id]) if ended.cancelled() else None)
            return checked

        return self.promises.make(loss_id, session_id, start)

    def refuse(self, session_id: str, number: int, error: UserError) -> Promise:
        """A loss that makes no sense fails as a promise."""
        return self.promises.make(loss_name(session_id, number), session_id, lambda: failed(error))

    def resolve(self, config: Mapping[str, Any], model_id: str) -> CustomLoss:
        """The uploaded loss that a gradient request's configuration names, or `UserError`."""
        loss_id = config.get("loss_id")
        loss = self._losses.get(loss_id) if isinstance(loss_id, str) else None
        if loss is None or session_of(loss.loss_id) != session_of(model_id):
            raise UserError(
                f"loss_fn is {CUSTOM!r} with loss_id {loss_id!r}, which names no loss of this session; "
                "make it with ServiceClient.create_custom_loss of the same client."
            )
        return loss

    def close_session(self, session_id: str) -> None:
        """Forget a session's losses."""
        self._forget(self._of_session(session_id))

    def stop(self) -> None:
        """Let the check that runs end; nothing new is checked."""
        self._checker.shutdown(wait=False, cancel_futures=True)

    def _of_session(self, session_id: str) -> list[str]:
        with self._lock:
            return [loss_id for loss_id in self._losses if session_of(loss_id) == session_id]

    def _forget(self, loss_ids: Iterable[str]) -> None:
        with self._lock:
            for loss_id in loss_ids:
                self._losses.pop(loss_id, None)


def loss_name(session_id: str, number: int) -> str:
    """The id of a session's loss."""
    return f"{session_id}:loss:{number}"
