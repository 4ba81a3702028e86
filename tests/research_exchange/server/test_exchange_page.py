"""docs/explanation/exchange.md says what the code does."""

import re
from pathlib import Path

from benchmarks import exchange as figures
from research_exchange.capacity import BACKOFF_MINUTES
from research_exchange.server import housekeeping, sitting, updating
from research_exchange.server.limits import MAX_NEWEST, MAX_PAGE, MAX_UPDATE_BYTES, MIB
from research_exchange.server.listing import RunStanding
from research_exchange.server.lookout import LOOK_EVERY
from research_exchange.store.engines import BUSY_TIMEOUT_MS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/explanation/exchange.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())


def test_the_numbers_are_those_of_the_code() -> None:
    first, second, third = BACKOFF_MINUTES
    for said in (
        f"for {housekeeping.SILENT_AFTER:g} seconds (`{housekeeping.SILENT_AFTER_VARIABLE}`)",
        f"after {first}, {second} and {third} minutes",
        f"it looks at the store every {LOOK_EVERY:g} seconds",
        f"wait up to {BUSY_TIMEOUT_MS // 1000} seconds",
        f"{figures.UPDATES_OF_ONE_RUN:,} updates, among {figures.RUNS:,} runs",
        f"| sessions | {sitting.MAX_SESSIONS:,} (R-240) | 409",
        f"| updates | {updating.MAX_UPDATES:,} | 409; {updating.FURTHER_FINAL_UPDATES} more are taken",
        f"{MAX_UPDATE_BYTES // MIB} MiB each, {updating.MAX_BYTES_OF_UPDATES // (1024 * MIB)} GiB together (R-240)",
        f"updates of at most {updating.SMALL_UPDATE_BYTES // 1024} KiB are taken all the same",
        f"takes `limit`, {MAX_NEWEST} unless it is given and {MAX_PAGE} at most",
        f"| the answer | has the newest {MAX_NEWEST} |",
        f"< {figures.PAGE_MS} ms",
        f"< {figures.JUDGMENT_MS // 1000} s",
    ):
        assert said in TEXT, said


def test_every_standing_of_a_run_and_every_test_is_there() -> None:
    assert all(f"`{standing}`" in TEXT for standing in RunStanding)
    named = re.findall(r"test_\w+\.py", PAGE)
    assert named and all(list((ROOT / "tests").rglob(name)) for name in named)
