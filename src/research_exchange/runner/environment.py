"""What a script sees of the machine: named variables, and nothing else of the runner's own environment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from research_exchange.client import Run

PASSED_ON = ("HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""Variables of the runner that reach a script; no key or token of whoever starts the run is among them."""


def script_environment(
    run: Run, service: Mapping[str, str], revision: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The complete environment of a script: how to reach its run and its training service, and where tools are.

    `python` is the interpreter that runs this, so that a script finds the packages it was written for.
    """
    url = run.page.removesuffix(f"/runs/{run.id}")
    return {
        **{name: environment[name] for name in PASSED_ON if name in environment},
        **service,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "RX_URL": url,
        "RX_RUN_ID": run.id,
        "RX_RUN_TOKEN": run.token or "",
        "RX_CODE_REVISION": revision,
    }


def revision_of(folder: Path) -> str:
    """The git revision that `folder` is at, with "-dirty" when its files differ from it; "unversioned" outside git."""
    described = _git(folder, "rev-parse", "HEAD")
    if described is None:
        return "unversioned"
    return described.strip() + ("-dirty" if _git(folder, "status", "--porcelain", "--", ".") else "")


def patch_of(folder: Path) -> str:
    """How the tracked files of `folder` differ from its revision, as a diff; empty when they do not."""
    return _git(folder, "diff", "HEAD", "--", ".") or ""


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout
