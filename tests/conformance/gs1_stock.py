"""The stock loop of the GS1 spec beside the script's own GRPO; run by `test_gs1_stock.py` in its own environment.

`python -m tests.conformance.gs1_stock` prints, for groups with and without differing rewards, what tinker-cookbook
would send, and what the script sends.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tinker.types import Datum, SampledSequence

from experiments.gs1_vs_grpo.gs1.parity import stock_data
from experiments.gs1_vs_grpo.gs1.plan import Plan
from experiments.gs1_vs_grpo.gs1.rollouts import Rollouts, policy_data, worth
from research_exchange.harness import Item

SPEC: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "experiments" / "gs1_vs_grpo" / "spec.json").read_bytes()
)


def answer(number: int) -> SampledSequence:
    """Of one to three tokens."""
    size = 1 + number % 3
    logprobs = np.array([-0.25 * (number + 1)] * size, dtype=np.float32)
    return SampledSequence("stop", f"s{number}", np.arange(5, 5 + size, dtype=np.int32), logprobs)


def main() -> None:
    plan = Plan.of_spec(SPEC)
    rewards = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    problems = tuple(Item(f"p{number}", f"question {number}", "1") for number in range(3))
    groups = tuple(tuple(answer(4 * group + each) for each in range(4)) for group in range(3))
    grouped = Rollouts(problems, ((1, 2, 3), (1, 4), (2, 2, 2, 2)), groups, rewards)
    [path] = SPEC["correctness_preflight"]["paths"]
    stock = stock_data(path["baseline_revision"], grouped)
    own = policy_data(grouped, worth(grouped, plan.baseline, plan, step=0).advantages.tolist())
    print(json.dumps({"stock": [plain(datum) for datum in stock], "own": [plain(datum) for datum in own]}))


def plain(datum: Datum) -> dict[str, Any]:
    inputs = {name: values.to_numpy().tolist() for name, values in sorted(datum.loss_fn_inputs.items())}
    return {"tokens": datum.model_input.to_ints(), **inputs}


if __name__ == "__main__":
    main()
