"""The Exchange as a service, against the least that the same bytes take anybody: to commit a row, to sync a file."""

import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from benchmarks.comparison import Comparison
from benchmarks.rules import evidence_file, largest_rows, largest_spec, largest_updates
from research_exchange.evidence import MAX_FILE_BYTES
from research_exchange.server.exchange import Exchange
from research_exchange.server.listing import list_runs
from research_exchange.server.views import run_json
from research_exchange.store import LaunchMode, RandomIdentifiers, SpecRecord, Store, utc_now

ROUNDS = 5
UPDATES, ROUNDS_OF_UPDATES = 40, 25
"""Posted in one round, and how often ours and theirs take turns: a disk and a processor have slow seconds."""
RUNS = 10_000
UPDATES_OF_ONE_RUN = 1_000
PAGE_MS = 50
JUDGMENT_MS = 2_000

_CHUNK = 64 * 1024
"""What a server reads of a body at a time."""
_SPEC = "exp_0000000001"


def run() -> list[Comparison]:
    """Updates, uploads, the data of pages and the largest judgment, on a database and a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="exchange-benchmark-") as folder:
        data = Path(folder)
        store = Store.open(data / "exchange")
        try:
            exchange = Exchange(store, utc_now, RandomIdentifiers())
            raw = largest_spec().raw
            with store.writing() as writer:
                writer.add_spec(SpecRecord(_SPEC, sha256(raw).hexdigest(), "The largest run", utc_now(), raw))
            rows = [_updates(exchange, data), _uploads(exchange, data), _judgment(exchange), *_pages(exchange)]
            exchange.judging.close()
        finally:
            store.close()
    return rows


def _updates(exchange: Exchange, data: Path) -> Comparison:
    """Posted one after the other, each committed before the next; the same bytes into a table of one column."""
    run_id = _new_run(exchange)
    with closing(sqlite3.connect(data / "bare.sqlite3", isolation_level=None)) as bare:
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            bare.execute(f"PRAGMA {pragma}")
        bare.execute("CREATE TABLE updates (number INTEGER PRIMARY KEY, raw BLOB NOT NULL)")

        def ours(bodies: list[bytes]) -> None:
            for body in bodies:
                exchange.updates.post(run_id, body)

        def theirs(bodies: list[bytes]) -> None:
            for body in bodies:
                bare.execute("BEGIN IMMEDIATE")
                bare.execute("INSERT INTO updates (raw) VALUES (?)", (body,))
                bare.execute("COMMIT")

        rounds = [
            [_progress(number * UPDATES + step) for step in range(UPDATES)] for number in range(ROUNDS_OF_UPDATES)
        ]
        pairs = [(_seconds(ours, bodies), _seconds(theirs, bodies)) for bodies in rounds]
    ours_s, theirs_s = map(statistics.median, zip(*pairs, strict=True))
    return Comparison("post updates", "bare committed inserts", UPDATES / ours_s, UPDATES / theirs_s, "/s", 0.5)


def _uploads(exchange: Exchange, data: Path) -> Comparison:
    """The largest file, hashed, scanned, synced and put on record; the same bytes written to a file and synced."""
    rows = b"".join(largest_rows())[:MAX_FILE_BYTES]
    megabytes, pairs = len(rows) / 1e6, []
    for number in range(ROUNDS):
        # Other bytes each time, with the same words: bytes that are kept already would not be written again.
        content = rows.replace(b'"test-', b'"%04d-' % number)
        ours = _seconds(_upload, exchange, _new_run(exchange), content)
        pairs.append((ours, _seconds(_write, data / f"bare-{number}", content)))
    ours_s, theirs_s = map(statistics.median, zip(*pairs, strict=True))
    work = f"retain a file of {megabytes:.0f} MB"
    return Comparison(work, "write and fsync", megabytes / ours_s, megabytes / theirs_s, "MB/s", 0.3)


def _judgment(exchange: Exchange) -> Comparison:
    """From the store: nothing of the run is in memory but its folded state."""
    content = b"".join(largest_rows())
    run_id = _new_run(exchange)
    _upload(exchange, run_id, content)
    for update in largest_updates(evidence_file("rows.jsonl", "metrics", content)):
        exchange.updates.post(run_id, update.raw)
    found = [_seconds(exchange.view(run_id).judge, clock=time.process_time) for _ in range(ROUNDS)]
    work = f"judge {len(content) / 1e6:.0f} MB of rows"
    return Comparison(work, "the limit", 1000 * statistics.median(found), JUDGMENT_MS, "ms", 1.0)


def _pages(exchange: Exchange) -> list[Comparison]:
    """What a run's page is made from, and the first page of the list, among ten thousand runs."""
    run_id = _new_run(exchange)
    with exchange.store.writing() as writer:
        for number in range(RUNS):
            writer.add_run(f"run_{number:010x}", _SPEC, LaunchMode.ORDINARY, f"rxr_{number}", utc_now())
        for number in range(UPDATES_OF_ONE_RUN):
            writer.append_update(run_id, _progress(number), None, utc_now(), after=number)
    exchange.judging.judgment(exchange.view(run_id))

    def page() -> None:
        view = exchange.view(run_id)
        json.dumps(run_json(view))
        exchange.judging.judged(view)

    def first_page() -> None:
        with exchange.store.reading() as reader:
            list_runs(reader, 50, 0)

    works = (
        (f"a run's page, {UPDATES_OF_ONE_RUN:,} updates, {RUNS:,} runs", page),
        (f"the list of {RUNS:,} runs", first_page),
    )
    found = [(name, [_seconds(work, clock=time.process_time) for _ in range(ROUNDS)]) for name, work in works]
    return [Comparison(name, "the limit", 1000 * statistics.median(times), PAGE_MS, "ms", 1.0) for name, times in found]


def _new_run(exchange: Exchange) -> str:
    return exchange.runs.create(_SPEC, LaunchMode.ORDINARY, "benchmark").id


def _progress(step: int) -> bytes:
    metrics = {"step": step, "reward": step % 7 / 7, "loss": 1 / (step + 1), "gradient_norm": step % 11 / 10}
    return json.dumps({"status": "running", "metrics": metrics, "summary": "Training goes on as planned."}).encode()


def _upload(exchange: Exchange, run_id: str, content: bytes) -> None:
    with exchange.store.blobs.receive(MAX_FILE_BYTES) as incoming:
        for start in range(0, len(content), _CHUNK):
            incoming.write(content[start : start + _CHUNK])
        answer = exchange.evidence.retain(run_id, "rows.jsonl", "metrics", incoming, None)
    assert not answer.is_refused, answer.admission.problems


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _seconds(work: Callable[..., object], *arguments: object, clock: Callable[[], float] = time.perf_counter) -> float:
    """On the wall, where a disk takes part; of the processor, where none does and others may be at work."""
    started = clock()
    work(*arguments)
    return clock() - started
