"""What a script has reported and its Exchange has not taken yet, in a folder, in order.

Each report is a file of its own, written whole and flushed to the disk before it counts. Every report has a key by
which the Exchange knows it however often it comes, so whoever sends the folder, and is killed halfway, does no harm.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from research_exchange.client.connection import Connection, Json
from research_exchange.client.errors import ExchangeRefused, ExchangeUnreachable
from research_exchange.durable import sync_folder

__all__ = ["SPOOL_FOLDER", "Report", "Spool", "SpoolProblem"]

SPOOL_FOLDER = "spool"
"""In the folder that outlives a run's sessions (RX_WORK)."""
_SUFFIX = ".report"
_ASIDE = "refused"
_LOOK_SECONDS = 0.05


class SpoolProblem(Exception):
    """A file in a spool folder is not what a script left there; the text is one sentence for a person."""


@dataclass(frozen=True)
class Report:
    """One thing that a script says: an update, or a file of evidence."""

    run_id: str
    body: bytes
    file: Mapping[str, str] | None = None
    """The `name`, `kind` and `sha256` of a file; None for an update."""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which the Exchange knows it when it comes again."""
    is_metrics: bool = False
    """Whether it is an update of scalar metrics alone."""

    def is_dispensable(self, refusal: ExchangeRefused) -> bool:
        """Whether a script goes on without it, as the run has no room for it."""
        return self.is_metrics and refusal.is_for_want_of_room

    @property
    def what(self) -> str:
        return "an update" if self.file is None else f"the file {self.file['name']}"

    def post(self, connection: Connection) -> Json:
        """The answer of the Exchange.

        Raises:
            ExchangeRefused: it said no.
            ExchangeUnreachable: it did not answer in the time that the connection allows.
        """
        path = f"/api/runs/{self.run_id}/{'updates' if self.file is None else 'evidence'}"
        headers = {"Idempotency-Key": self.key}
        answer: Json = connection.send("POST", path, self.body, params=self.file, headers=headers).json()
        return answer

    def to_bytes(self) -> bytes:
        """One line of JSON, and then the body as it is."""
        file = self.file and dict(self.file)
        head = {"version": 1, "run": self.run_id, "key": self.key, "file": file, "is_metrics": self.is_metrics}
        return json.dumps(head).encode() + b"\n" + self.body

    @classmethod
    def of_bytes(cls, content: bytes) -> "Report":
        """Raises ValueError, KeyError or TypeError where `to_bytes` did not write it."""
        line, _, body = content.partition(b"\n")
        head = json.loads(line)
        return cls(head["run"], body, head["file"], head["key"], head.get("is_metrics", False))


@dataclass(frozen=True)
class Spool:
    """A folder of reports that wait. Several threads and processes may add to it and send it."""

    folder: Path

    @property
    def not_taken(self) -> Path:
        """A file with a line for each update of metrics that the run had no room for, also in earlier sessions."""
        return self.folder / "metrics-not-taken.jsonl"

    @classmethod
    def below(cls, folder: Path) -> list["Spool"]:
        """The folder itself and those in it, one for each run, where something waits."""
        folders = [folder, *(each for each in sorted(folder.glob("*/")) if each.name != _ASIDE)]
        return [spool for spool in map(cls, folders) if spool.waiting()]

    def waiting(self) -> list[Path]:
        """The files of the reports, the oldest first."""
        return sorted(self.folder.glob(f"*{_SUFFIX}"))

    def read(self, path: Path) -> Report:
        """Raises SpoolProblem where no script left it."""
        try:
            return Report.of_bytes(path.read_bytes())
        except (ValueError, KeyError, TypeError):
            raise SpoolProblem(f"{path} is no report that a script left to be sent; move it elsewhere.") from None

    def add(self, report: Report) -> None:
        """Keep a report; when this returns, it is on the disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        incoming = self.folder / f".{report.key}"
        with incoming.open("wb") as file:
            file.write(report.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        waiting = self.waiting()
        number = int(waiting[-1].name.partition("-")[0]) + 1 if waiting else 1
        incoming.replace(self.folder / f"{number:08d}-{report.key}{_SUFFIX}")
        sync_folder(self.folder)

    def send(self, connection: Connection) -> list[ExchangeRefused]:
        """Post what waits, in order, until nothing does.

        Returns:
            What the Exchange said no to, each of which is set aside. Metrics that the run has no room for are added
            to `not_taken` instead, and all of them are one refusal.

        Raises:
            ExchangeUnreachable: it does not answer, or another process is sending, for longer than the connection's
                patience.
            ExchangeRefused: the token is not good for it, or the run is not there, so that everything stays.
            SpoolProblem: there is a file that no script left.
        """
        refused, without_room = list[ExchangeRefused](), list[ExchangeRefused]()
        with self._alone(connection.patience):
            while waiting := self.waiting():
                for path in waiting:
                    report = self.read(path)
                    try:
                        report.post(connection)
                    except ExchangeRefused as refusal:
                        if not refusal.is_about_content:
                            raise
                        if report.is_dispensable(refusal):
                            self.keep_not_taken(report)
                            path.unlink()
                            without_room.append(refusal)
                        else:
                            self._set_aside(path, refusal)
                            refused.append(refusal)
                    else:
                        path.unlink()
        return [*refused, self._as_one(without_room)] if without_room else refused

    def keep_not_taken(self, report: Report) -> None:
        """Add metrics that the run had no room for to those that it had none for before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.not_taken.open("ab") as file:
            file.write(report.body + b"\n")

    def count_not_taken(self) -> int:
        return self.not_taken.read_bytes().count(b"\n") if self.not_taken.is_file() else 0

    def _as_one(self, refusals: Sequence[ExchangeRefused]) -> ExchangeRefused:
        first = refusals[0]
        sentence = f"{first.sentence} {len(refusals)} updates of metrics are kept in {self.not_taken} instead."
        return ExchangeRefused(sentence, status=first.status, rule=first.rule)

    def _set_aside(self, path: Path, refusal: ExchangeRefused) -> None:
        """Keep what the Exchange does not take, with its words, out of the way of what comes after."""
        aside = self.folder / _ASIDE
        aside.mkdir(exist_ok=True)
        aside.joinpath(f"{path.stem}.txt").write_text(f"{refusal}\n")
        path.replace(aside / path.name)

    @contextmanager
    def _alone(self, seconds: float) -> Iterator[None]:
        """While nobody else sends, in this process or another. A process that is killed lets go at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + seconds
        with self.folder.joinpath(".sending").open("ab") as file:
            while not _lock(file):
                if time.monotonic() > deadline:
                    raise ExchangeUnreachable(f"Another process is still sending what waits in {self.folder}.")
                time.sleep(_LOOK_SECONDS)
            yield


if sys.platform == "win32":

    def _lock(file: IO[bytes]) -> bool:
        """Without locks two senders may meet; the reports' keys keep the record right."""
        return True

else:
    import fcntl

    def _lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
