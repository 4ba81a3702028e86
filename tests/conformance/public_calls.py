"""Which public methods the stock SDK has, and which of them this session's tests called."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tinker
from tinker.lib.public_interfaces.api_future import AwaitableConcurrentFuture
from tinker.lib.public_interfaces.backcompat_client_future import BackcompatClientFuture

CLASSES: tuple[type, ...] = (
    tinker.ServiceClient,
    tinker.TrainingClient,
    tinker.SamplingClient,
    tinker.RestClient,
    tinker.AdminClient,
    AwaitableConcurrentFuture,
    BackcompatClientFuture,
)
"""The clients, and the two kinds of futures that their methods return."""


def public(kind: type) -> dict[str, Any]:
    """The methods, static methods and properties that a class itself defines."""
    return {
        name: member
        for name, member in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, staticmethod | property))
    }


def all_public() -> set[str]:
    return {f"{kind.__name__}.{name}" for kind in CLASSES for name in public(kind)}


@contextmanager
def recorded() -> Iterator[set[str]]:
    """While it is entered, the names of the public members that are used are added to the set."""
    used: set[str] = set()
    originals = {kind: public(kind) for kind in CLASSES}
    for kind, members in originals.items():
        for name, member in members.items():
            setattr(kind, name, _recording(member, functools.partial(used.add, f"{kind.__name__}.{name}")))
    yield used
    for kind, members in originals.items():
        for name, member in members.items():
            setattr(kind, name, member)


def _recording(member: Any, record: Callable[[], None]) -> Any:
    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            record()
            return function(*arguments, **options)

        return wrapper

    if isinstance(member, property):
        assert member.fget is not None
        return property(around(member.fget))
    if isinstance(member, staticmethod):
        return staticmethod(around(member.__func__))
    return around(member)
