"""What a server does again and again while it serves."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.concurrency import run_in_threadpool

log = logging.getLogger(__name__)


@asynccontextmanager
async def rounds(what: str, work: Callable[[], None], pause: float) -> AsyncIterator[None]:
    """Does `work` every `pause` seconds while the block runs; the last round is finished before this returns.

    A round that fails is logged, by the name of `what` it is for, and is not the last one.
    """
    stop = asyncio.Event()
    going = asyncio.create_task(_go_round(what, work, pause, stop))
    try:
        yield
    finally:
        stop.set()
        await going


async def _go_round(what: str, work: Callable[[], None], pause: float, stop: asyncio.Event) -> None:
    while not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
            return
        try:
            await run_in_threadpool(work)
        except Exception:
            log.exception("A round of %s failed; the next one comes in %g seconds.", what, pause)
