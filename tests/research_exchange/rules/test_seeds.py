"""The specs of the two seed experiments are read and judged; they are not part of the repository."""

from pathlib import Path

import pytest

from research_exchange.documents import GateStatus, Spec
from research_exchange.judgment import judge

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"


@pytest.mark.parametrize("name", ["gs1_vs_grpo", "score_centering"])
def test_a_seed_spec_is_judged_without_a_verdict(name: str) -> None:
    path = SEEDS / f"{name}.spec.json"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    spec = Spec.parse(path.read_bytes())
    judgment = judge(spec, [], [])
    assert judgment.recorded_verdict is None
    assert GateStatus.PASSED not in {gate.status for gate in judgment.gates}
    if name == "gs1_vs_grpo":
        roles = [problem for problem in judgment.gate("decision").problems if problem.rule == "R-14C"]
        assert len(roles) == 2, "its weights name treatment and baseline, and no arm has these roles"
