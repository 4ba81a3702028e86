"""How long the rules take beside a bare JSON reader on the same bytes; `python -m benchmarks rules` says it exactly."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MEASURE = """
import json, time
from benchmarks import rules

def ratio(race):
    rounds = []
    while len(rounds) < 12:
        rounds.append(race.times(time.process_time))
        ours, theirs = (min(side) for side in zip(*rounds))
        if len(rounds) > 1 and ours <= race.target * theirs:
            break
    return [ours / theirs, race.target]

print(json.dumps({race.work: ratio(race) for race in (rules.decision(), rules.parser()[0], rules.judgment())}))
"""


def test_the_largest_documents_are_read_decided_and_judged_in_time() -> None:
    """In a process of its own, because measuring coverage slows one side; in processor time, because tests share it.

    The fastest round of each side counts, and a busy machine gets up to twelve of them.
    """
    done = subprocess.run([sys.executable, "-c", MEASURE], cwd=ROOT, capture_output=True, text=True, check=True)
    ratios: dict[str, tuple[float, float]] = json.loads(done.stdout)
    assert len(ratios) == 3
    slow = {work: ratio for work, (ratio, target) in ratios.items() if ratio > target}
    assert not slow
