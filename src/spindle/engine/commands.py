"""What a model's queue holds: a gradient request, or any other piece of work on the backend."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from spindle.backends.contract import Backend, ForwardBackward, UserError


@dataclass(frozen=True)
class Work:
    """A command that runs alone: optimizer steps, saves, loads, creation.

    `run` has the backend to itself. `persist`, when given, follows on the disk lane with what `run` returned, while
    other models go on, and its value is the command's result; the model's next command waits for it.
    """

    run: Callable[[Backend], Any]
    persist: Callable[[Any], Any] | None = None


def refusal(error: UserError) -> Work:
    """A command that fails when its turn comes, so that a bad request still takes its place in the order."""

    def run(_: Backend) -> None:
        raise error

    return Work(run)


Command = ForwardBackward | Work


@dataclass(frozen=True)
class Ticket:
    """A command and the place where its result is awaited."""

    command: Command
    future: Future[Any] = field(default_factory=Future)
