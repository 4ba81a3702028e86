"""The page about reporting: its example is a script that runs, and it tells of every kind of event."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from research_exchange.client import Exchange
from research_exchange.client.run import NOT_TAKEN
from research_exchange.client.spool import Spool
from research_exchange.server.updating import MAX_UPDATES
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.client.specs import SPEC

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "report-from-a-script.md").read_text(encoding="utf-8")
GATE = {
    "applicable": True,
    "reason": "There has to be something to learn from.",
    "checks": [{"metric": "batch_mean_reward", "measures": "mean reward", "min": 0.1, "max": 0.9}],
}


def test_the_example_reports_a_run_from_its_deviation_to_its_end(
    served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0])
    run = exchange.create_run(exchange.register(json.dumps({**SPEC, "activation_gate": GATE}).encode()))
    named = {"RX_URL": served.url, "RX_RUN_ID": run.id, "RX_RUN_TOKEN": run.token or "", "RX_WORK": str(tmp_path)}
    subprocess.run([sys.executable, str(script)], env={**os.environ, **named}, check=True, timeout=60)
    record = run.record()
    assert record["state"]["arms"]["trained"]["accuracy"]["value"] == 0.62
    assert record["state"]["metrics"]["step"]["value"] == 12
    assert record["state"]["status"] == "succeeded"
    assert [file["name"] for file in record["evidence"]] == ["train.py"]
    assert '"recording": "recorded"' in json.dumps(record["recorded"]["deviations"])


def test_the_page_tells_of_what_becomes_of_metrics_without_room() -> None:
    for said in (
        f"[A run has {MAX_UPDATES:,} updates at most]",
        f"`{Spool(Path()).not_taken}`",
        f"`{NOT_TAKEN}`",
        '`"rule": "R-240"`',
    ):
        assert said in PAGE, said


def test_the_page_tells_of_the_kinds_of_events_that_the_server_sends() -> None:
    source = Path(__file__).parents[3] / "src" / "research_exchange" / "server" / "events.py"
    sent = set(re.findall(r'Event\("(\w+)"', source.read_text()))
    table = PAGE.partition("| kind | |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) - {"document"} == sent
