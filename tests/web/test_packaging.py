"""What the pages and the migrations read beside their code is part of the distribution."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from research_exchange import presentation, reports, store, web

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", [presentation, reports, store, web])
def test_every_file_of_the_package_is_packaged(package: object) -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = [*config["tool"]["setuptools"]["package-data"]["*"], "*.py"]
    files = [path for path in Path(str(package.__file__)).parent.rglob("*") if path.is_file()]  # type: ignore[attr-defined]
    files = [path for path in files if "__pycache__" not in path.parts]
    assert files
    assert [path for path in files if not any(fnmatch(path.name, pattern) for pattern in patterns)] == []
