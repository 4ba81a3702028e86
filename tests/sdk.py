"""What tests that use the stock SDK in their own process need around it, for their `conftest.py`."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


def leave_sockets_to_the_collector(items: list[pytest.Item], folder: Path) -> None:
    """The SDK leaves the sockets of its first request to the garbage collector: no error in the tests of `folder`."""
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect what the SDK left here, not in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
