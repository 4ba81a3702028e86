"""What `rx doctor` looks at. Nothing is changed by looking, and no finding holds a secret."""

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path

import httpx

from research_exchange.client import Exchange, ExchangeError
from research_exchange.runner.services import announced_exchange, training_answers
from research_exchange.whereabouts import ADMIN_TOKEN_FILE

__all__ = ["Check", "Place", "checks"]

OLDEST_PYTHON = (3, 11)
GIB = 2**30
LITTLE_SPACE, NO_SPACE = 5 * GIB, GIB // 2
"""Free bytes: a day of runs with their evidence may need the first, a database the second to stay sound."""
CLOCK_SECONDS = 5.0
SPINDLE_SECONDS = 120.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    found: str
    state: str = "ok"
    """ok, note (it works, and could trouble you) or wrong."""
    advice: str | None = None
    """What to do about it."""


@dataclass(frozen=True)
class Place:
    """What is looked at."""

    data: Path
    url: str | None
    """Of a running Exchange; None for the data folder's own, if it runs."""
    database_url: str | None
    evidence_url: str | None
    environment: Mapping[str, str]


def checks(place: Place) -> Iterator[Check]:
    """Every check, one after the other; some take seconds."""
    yield _software()
    yield from _data_folder(place.data)
    url = place.url or place.environment.get("RX_URL") or announced_exchange(place.data)
    if url is None:
        yield Check("exchange", "none runs here; rx starts one where it needs one, and `rx serve` serves one")
        yield _clock_alone()
        yield _database(place)
        yield _evidence(place)
    else:
        yield from _running(url, place)
    yield from _training(place.environment)


def _software() -> Check:
    python = ".".join(map(str, sys.version_info[:3]))
    found = f"research-exchange {version('research-exchange')}, Python {python}"
    if sys.version_info < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        return Check("software", found, "wrong", f"Install Python {needed} or newer, and the package again with it.")
    missing = [name for name in ("tinker", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        return Check(
            "software",
            f"{found}, without {' and '.join(missing)}",
            "note",
            "Scripts that use the harness need: pip install 'research-exchange[harness]'",
        )
    return Check("software", found)


def _data_folder(data: Path) -> Iterator[Check]:
    there = next(folder for folder in (data.absolute(), *data.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Check("data folder", f"{data} cannot be written", "wrong", "Choose another with --data or RX_DATA.")
        return
    yield Check("data folder", f"{data}" if data.exists() else f"{data} will be made")
    yield from _permissions(data)
    free = shutil.disk_usage(there).free
    found = f"{free / GIB:.1f} GiB free"
    advice = "Make room, or choose another folder with --data or RX_DATA; `rx prune` removes what is of no more use."
    yield Check(
        "disk", found, *(("wrong", advice) if free < NO_SPACE else ("note", advice) if free < LITTLE_SPACE else ())
    )


def _permissions(data: Path) -> Iterator[Check]:
    """That nobody else on this machine reads the administrator's token."""
    open_ones = [path for path in (data, data / ADMIN_TOKEN_FILE) if path.exists() and path.stat().st_mode & 0o077]
    token = data / ADMIN_TOKEN_FILE
    if token in open_ones:
        advice = f"Run `chmod 600 {token}`, and replace the token if somebody else may have read it."
        yield Check("permissions", f"{token} can be read by others", "wrong", advice)
    elif open_ones:
        yield Check("permissions", f"{data} can be entered by others", "note", f"Run `chmod 700 {data}`.")
    elif data.exists():
        yield Check("permissions", "the folder is its owner's alone")


def _running(url: str, place: Place) -> Iterator[Check]:
    """An Exchange that answers, or should."""
    try:
        answer = httpx.get(f"{url.rstrip('/')}/health", timeout=5.0)
        health = answer.json()
        theirs, parts = health["version"], health["checks"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        advice = "Start one with `rx serve`, or unset RX_URL so that rx starts one itself."
        yield Check("exchange", f"none answers at {url}", "wrong", advice)
        return
    mine = version("research-exchange")
    if theirs == mine:
        yield Check("exchange", f"{url} answers")
    else:
        yield Check(
            "exchange", f"{url} has version {theirs}, and this is {mine}", "note", "Use the same on both sides."
        )
    for part, said in parts.items():
        bad = () if said == "ok" else ("wrong", "The Exchange's own log says why.")
        yield Check(part, said, *bad)
    yield _clock_beside(answer.headers.get("date"))
    yield _token(url, place)


def _token(url: str, place: Place) -> Check:
    from research_exchange.cli.exchange import connect

    asked = connect(url, place.data)
    try:
        Exchange(url, asked.token, patience=0).ideas(limit=1)
    except ExchangeError as refusal:
        return Check("token", str(refusal), "wrong", "Set RX_TOKEN to one that is good; `rx token give` makes one.")
    if asked.token is None:
        return Check("token", "none, which is enough to read", "note", "Set RX_TOKEN to start runs and to save specs.")
    return Check("token", "one that the Exchange takes")


def _clock_beside(date: str | None) -> Check:
    try:
        apart = abs((datetime.now(UTC) - parsedate_to_datetime(date or "")).total_seconds())
    except ValueError:
        return _clock_alone()
    found = f"{apart:.0f} s from the Exchange's"
    if apart <= CLOCK_SECONDS:
        return Check("clock", found)
    return Check(
        "clock", found, "note", "Let both machines set their clocks by NTP; what is recorded goes by the Exchange's."
    )


def _clock_alone() -> Check:
    """Without another clock at hand: it is not earlier than this software."""
    now = datetime.now(UTC)
    if now.timestamp() < Path(__file__).stat().st_mtime:
        return Check(
            "clock", f"{now:%Y-%m-%d %H:%M} UTC, before this software was installed", "wrong", "Set it by NTP."
        )
    return Check("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def _database(place: Place) -> Check:
    """Where no server has it open."""
    if place.database_url is None:
        return _sqlite(place.data / "exchange.sqlite3")
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.exc import SQLAlchemyError

    try:
        engine = create_engine(make_url(place.database_url).set(drivername="postgresql+psycopg"))
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except (SQLAlchemyError, ImportError):
        return Check(
            "database", "the one that is named does not answer", "wrong", "See RX_DATABASE_URL, and whether it runs."
        )
    return Check("database", "the one that is named answers")


def _sqlite(file: Path) -> Check:
    if not file.exists():
        return Check("database", f"{file.name} will be made")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as trouble:
        said = str(trouble)
    if said == "ok":
        return Check("database", f"{file.name}, {file.stat().st_size / 2**20:.1f} MiB, is sound")
    return Check("database", f"{file.name}: {said}", "wrong", "Restore the newest backup with `rx restore`.")


def _evidence(place: Place) -> Check:
    if place.evidence_url is None:
        return Check("evidence", "is kept in the data folder")
    from research_exchange.store.blobs.opening import open_blobs

    try:
        open_blobs(place.evidence_url, place.data, place.environment)
    except OSError as trouble:
        return Check("evidence", str(trouble), "wrong", "See RX_EVIDENCE_URL and the AWS_ variables.")
    return Check("evidence", "the store that is named answers")


def _training(environment: Mapping[str, str]) -> Iterator[Check]:
    named = environment.get("TINKER_BASE_URL")
    if named:
        yield _named_service(named.rstrip("/"), environment)
    elif importlib.util.find_spec("spindle") is None:
        advice = "pip install 'research-exchange[spindle]', or set TINKER_BASE_URL to one that runs elsewhere."
        yield Check("training service", "none is named, and Spindle is not installed", "wrong", advice)
    else:
        yield from _spindle()


def _named_service(url: str, environment: Mapping[str, str]) -> Check:
    if not training_answers(url):
        advice = "Start it, or unset TINKER_BASE_URL so that rx starts a Spindle."
        return Check("training service", f"none answers at {url}", "wrong", advice)
    try:
        headers = {"X-API-Key": environment.get("TINKER_API_KEY", "")}
        answer = httpx.get(f"{url}/api/v1/get_server_capabilities", headers=headers, timeout=10.0).raise_for_status()
        models = [str(model["model_name"]) for model in answer.json()["supported_models"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return Check("training service", f"{url} does not let us in", "wrong", "Set TINKER_API_KEY to its key.")
    return Check("training service", f"{url} serves {', '.join(models)}")


def _spindle() -> Iterator[Check]:
    """What Spindle's own doctor finds, in one line where all is well."""
    command = [sys.executable, "-m", "spindle.cli", "doctor", "--json"]
    try:
        said = subprocess.run(command, capture_output=True, timeout=SPINDLE_SECONDS, check=False).stdout
        found = {str(each["name"]): each for each in json.loads(said)["checks"]}
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        yield Check("training service", "Spindle does not start", "wrong", "`spindle doctor` says why.")
        return
    yield Check("training service", "a Spindle, which rx starts where it needs one")
    for name, each in found.items():
        if name.startswith("model") or each["state"] != "ok":
            yield Check(f"spindle: {name}", each["found"], each["state"], each["advice"])
