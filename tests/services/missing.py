"""What a test does about a service that is not installed."""

import os
from typing import NoReturn

import pytest


def not_installed(what: str, how: str) -> NoReturn:
    """Skip, and say so; in CI, where every service must be there, fail."""
    sentence = f"{what} is not installed here; `{how}` does it."
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)
