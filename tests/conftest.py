"""How the tests are shared out when several processes run them: `make test` uses one for each of two cores."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
WHOLE = ("conformance", "e2e")
"""Folders whose tests look back on each other, or need the machine's cores for themselves; they stay together."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay in one process, and so do those of some folders; the longest folders begin first."""
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0]
        item.add_marker(pytest.mark.xdist_group(folder if folder in WHOLE else str(item.path)))
    items.sort(key=lambda item: item.path.relative_to(ROOT).parts[0] not in WHOLE)
