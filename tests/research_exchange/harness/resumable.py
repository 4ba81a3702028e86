"""A training that can be interrupted, for a test that kills it: four steps, a checkpoint after every second one."""

import os
from pathlib import Path

import numpy as np
import tinker
from tinker.types import AdamParams, Datum, ModelInput, TensorData

from research_exchange.client import Run
from research_exchange.harness.checkpoints import Checkpoints
from tests.servers import MODEL

STEPS = 4
DATUM = Datum(
    model_input=ModelInput.from_ints([1, 2, 3]),
    loss_fn_inputs={
        "target_tokens": TensorData.from_numpy(np.array([2, 3, 4])),
        "weights": TensorData.from_numpy(np.ones(3, dtype=np.float32)),
    },
)


def train(run: Run, service: tinker.ServiceClient, folder: Path) -> list[float]:
    """The logprobs after the last step; each step is printed as it is done."""
    checkpoints = Checkpoints(run, "trained", every=2, folder=folder)
    learner = checkpoints.learner(service, lambda: service.create_lora_training_client(MODEL, rank=4, seed=1).result())
    for step in range(checkpoints.step, STEPS):
        learner.forward_backward([DATUM], "cross_entropy")
        learner.optim_step(AdamParams(learning_rate=0.01)).result()
        print("step", step + 1, flush=True)
        checkpoints.after(learner, step + 1, seen=step + 1)
    output = learner.forward([DATUM], "cross_entropy").result()
    values: list[float] = output.loss_fn_outputs[0]["logprobs"].to_numpy().tolist()
    return values


def main() -> None:
    with tinker.ServiceClient() as service:
        print("logprobs", *train(Run.from_env(), service, Path(os.environ["RX_WORK"])), flush=True)


if __name__ == "__main__":
    main()
