"""What a command sees of the machine: named variables, and nothing else of the runner's own environment."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from research_exchange.client import Run

PASSED_ON = ("HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""Variables of the runner that reach a command; no key or token of whoever starts the run is among them."""
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def command_environment(
    run: Run,
    service: Mapping[str, str],
    *,
    state: Path,
    is_resumed: bool,
    passed: Mapping[str, str],
    revision: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The complete environment of a command: how to reach its run and its training service, and where tools are.

    `python` is the interpreter that runs this, so that a script finds the packages it was written for.

    Args:
        run: With the token that the command reports with.
        service: What it needs to reach the training service.
        state: Its RX_WORK, the folder that outlives its session.
        is_resumed: Whether an earlier session of the run was here before (RX_RESUME).
        passed: Further variables.
        revision: Of its code, where it comes with code.
        environment: The runner's own.
    """
    url = run.page.removesuffix(f"/runs/{run.id}")
    return {
        **{name: environment[name] for name in PASSED_ON if name in environment},
        **passed,
        **service,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "RX_URL": url,
        "RX_RUN_ID": run.id,
        "RX_RUN_TOKEN": run.token or "",
        "RX_WORK": str(state),
        **({"RX_RESUME": "1"} if is_resumed else {}),
        **({"RX_CODE_REVISION": revision} if revision else {}),
    }


def named_variables(names: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that somebody asked to pass on.

    Raises:
        KeyError: with the names of those that are not set.
    """
    missing = [name for name in names if name not in environment]
    if missing:
        raise KeyError(", ".join(missing))
    return {name: environment[name] for name in names}


def secrets_in(environment: Mapping[str, str]) -> list[bytes]:
    """The values that must not appear in a log: of each variable whose name says that it holds a secret."""
    return [
        value.encode()
        for name, value in environment.items()
        if len(value) >= 8 and any(word in name.upper() for word in _SECRET_WORDS)
    ]


def revision_of(folder: Path) -> str:
    """The git revision that `folder` is at, with "-dirty" when its files differ from it; "unversioned" outside git."""
    described = _git(folder, "rev-parse", "HEAD")
    if described is None:
        return "unversioned"
    return described.decode().strip() + ("-dirty" if _git(folder, "status", "--porcelain", "--", ".") else "")


def patch_of(folder: Path) -> bytes:
    """How the tracked files of `folder` differ from its revision, as a diff; empty when they do not.

    It has the bytes of the files, in whatever encoding they are.
    """
    return _git(folder, "diff", "HEAD", "--", ".") or b""


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout
