"""The table of status, verdict, reason and capacity block (contract §5)."""

from typing import Any

import pytest

from tests.research_exchange.rules.support import judge_bundle, patched, vectors

RUN = vectors("runs")["base"]
FIELDS = ("status", "verdict", "outcome_reason", "capacity_block")
CASES = vectors("final_updates")["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(str(case[name]) for name in FIELDS[:3]))
def test_a_combination(case: dict[str, Any]) -> None:
    """R-060 to R-064, R-203: nothing is remarked on what is accepted."""
    judgment = judge_bundle(
        patched(RUN, [{"op": "add", "path": f"/updates/2/{name}", "value": case[name]} for name in FIELDS])
    )
    assert judgment.recorded_verdict == case["recorded"]
    sound = {flag.rule for flag in judge_bundle(RUN).flags}
    assert sorted({flag.rule for flag in judgment.flags} - sound) == case["rules"]
