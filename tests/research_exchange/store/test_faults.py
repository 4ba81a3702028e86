"""A writer that is killed, a full disk, a locked database: what was acknowledged stays, nothing is there by half."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from research_exchange.store import Store, engines
from tests.research_exchange.store.conftest import NOON, RUN

WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from research_exchange.store import EvidenceRecord, Store

store = Store.open(Path(sys.argv[1]), sys.argv[2])
now = datetime(2026, 3, 1, 12, tzinfo=UTC)
number = 0
while True:
    number += 1
    digest = store.blobs.put_stream((b"%d " % number * 1000 for _ in range(20)), 10**7).sha256
    with store.writing() as writer:
        update = writer.append_update(sys.argv[3], b"update %d" % number, None, now)
        writer.add_evidence(sys.argv[3], EvidenceRecord(f"{number}", "log", digest, 1, update.sequence, now))
    print(update.sequence, digest, flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 7, 20])
def test_a_writer_that_is_killed_loses_nothing_it_acknowledged(
    store: Store, data: Path, database_url: str, acknowledged: int
) -> None:
    command = [sys.executable, "-c", WRITER, str(data), database_url, RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().split() for _ in range(acknowledged)]
        writer.send_signal(signal.SIGKILL)
        told += [line.split() for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    with closing(Store.open(data, database_url)) as reopened:
        with reopened.reading() as reader:
            updates, evidence = reader.updates(RUN), reader.evidence(RUN)
        assert [update.sequence for update in updates] == list(range(1, len(updates) + 1))
        assert [file.update for file in evidence] == [update.sequence for update in updates]
        assert [int(sequence) for sequence, _ in told] == [update.sequence for update in updates][: len(told)]
        assert len(told) <= len(updates) <= len(told) + 1
        for sequence, digest in told:
            assert evidence[int(sequence) - 1].sha256 == digest
        for digest in reopened.blobs.digests():
            assert reopened.blobs.read(digest)
        reopened.blobs.remove_leftovers(-1)
        with reopened.writing() as again:
            assert again.append_update(RUN, b"afterwards", None, NOON).sequence == len(updates) + 1
    assert list((data / "blobs").glob(".incoming-*")) == []


FULL_DISK = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from research_exchange.store import LaunchMode, SpecRecord, Store

data, now = Path(sys.argv[1]) / "data", datetime(2026, 3, 1, 12, tzinfo=UTC)
store = Store.open(data)
with store.writing() as writer:
    writer.add_spec(SpecRecord("exp_0123456789", "a" * 64, "A title", now, b"{}"))
    writer.add_run("run_0123456789", "exp_0123456789", LaunchMode.ORDINARY, "rxr_x", now)
kept, digests, refusals = 0, [], set()
while len(refusals) < 2:
    try:
        digests.append(store.blobs.put(b"%d" % kept * 20_000))
    except OSError as error:
        refusals.add(f"blob: {error.strerror}")
    try:
        with store.writing() as writer:
            writer.append_update("run_0123456789", b"%d" % kept * 20_000, None, now)
        kept += 1
    except Exception as error:
        refusals.add(f"update: {getattr(error, 'orig', error)}")
(Path(sys.argv[1]) / "data" / "blobs").joinpath(digests[0][:2], digests[0][2:]).unlink()
digests.pop(0)
with store.reading() as reader:
    assert len(reader.updates("run_0123456789")) == kept, "an acknowledged update is gone"
for digest in digests:
    store.blobs.read(digest)
assert sorted(store.blobs.digests()) == sorted(set(digests)), "half a blob is there"
assert not list((data / "blobs").glob(".incoming-*")), "half a blob was left behind"
for digest in digests[: len(digests) // 2]:
    store.blobs.remove(digest)
with store.writing() as writer:
    assert writer.append_update("run_0123456789", b"room again", None, now).sequence == kept + 1
print("; ".join(sorted(refusals)))
"""


def test_a_full_disk_refuses_what_it_cannot_keep_and_keeps_the_rest(tmp_path: Path) -> None:
    """On a disk of its own, 4 MiB large, which is there for this one process only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    script = f'mount -t tmpfs -o size=4m none "{folder}" && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", FULL_DISK]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no disk of one's own can be made here: {done.stderr}")
    assert done.stderr == ""
    assert done.stdout.strip() == "blob: No space left on device; update: database or disk is full"


def test_a_writer_waits_for_a_database_that_is_locked_for_seconds(store: Store, database_url: str) -> None:
    locked = threading.Event()

    def hold() -> None:
        with store.writing() as writer:
            writer.append_update(RUN, b"first", None, NOON)
            locked.set()
            time.sleep(2)

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    began = time.monotonic()
    with store.reading() as reader:
        assert reader.updates(RUN) == []
    assert time.monotonic() - began < 1
    with store.writing() as writer:
        assert writer.append_update(RUN, b"second", None, NOON).sequence == 2
    assert time.monotonic() - began > 1
    holder.join()


def test_a_writer_gives_up_on_a_database_that_stays_locked(
    data: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_TIMEOUT_MS", 300)
    with closing(Store.open(data, database_url)) as store, closing(Store.open(data, database_url)) as other:
        with store.writing(), pytest.raises(OperationalError, match=r"locked|lock timeout"), other.writing():
            pass
        with other.writing() as writer:
            assert writer.count_runs() == 0


def test_a_thread_gives_up_on_its_turn_and_the_next_one_gets_it(
    data: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_TIMEOUT_MS", 300)
    entered, leave = threading.Event(), threading.Event()

    def hold(store: Store) -> None:
        with store.writing():
            entered.set()
            leave.wait(timeout=30)

    with closing(Store.open(data, database_url)) as store:
        holder = threading.Thread(target=hold, args=[store])
        holder.start()
        assert entered.wait(timeout=30)
        with pytest.raises(OperationalError), store.writing():
            pass
        leave.set()
        holder.join()
        with store.writing() as writer:
            assert writer.count_runs() == 0


def test_a_writer_that_failed_in_the_middle_leaves_nothing_and_the_next_one_writes(store: Store) -> None:
    with pytest.raises(RuntimeError), store.writing() as writer:
        writer.append_update(RUN, b"first", None, NOON)
        raise RuntimeError
    with pytest.raises(IntegrityError), store.writing() as writer:
        writer.append_update(RUN, b"first", None, NOON)
        writer.append_update(RUN, b"out of order", None, NOON, after=7)
    with store.reading() as reader:
        assert reader.count_updates(RUN) == 0
    with store.writing() as writer:
        assert writer.append_update(RUN, b"second", None, NOON).sequence == 1
