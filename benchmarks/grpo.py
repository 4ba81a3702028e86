"""One step of GRPO: roll out, learn, step, against the sum of the library parts."""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks import ours, peers
from benchmarks.comparison import ROUNDS, Comparison, rates
from benchmarks.machine import Machine
from benchmarks.sampling import NEW_TOKENS, PROMPT_TOKENS, PROMPTS, SAMPLES
from spindle.backends.models import InstalledModel


def run(model: InstalledModel, _: Machine) -> list[Comparison]:
    """Spindle samples through its adapter; the library samples the bare base weights."""
    prompts = peers.random_tokens(PROMPTS, PROMPT_TOKENS)
    spindle = ours.Spindle(model)
    spindle.step()
    generate, peft = peers.Generate(model.path), peers.Peft(model.path)

    def step() -> None:
        with tempfile.TemporaryDirectory() as folder:
            spindle.save(Path(folder))
            results = spindle.sample(prompts, SAMPLES, NEW_TOKENS, Path(folder))
        spindle.reinforce([(prompt, s) for prompt, r in zip(prompts, results, strict=True) for s in r.sequences])
        spindle.step()

    def parts() -> None:
        tokens = generate.sample(prompts, SAMPLES, NEW_TOKENS)
        shape = (len(tokens), tokens.shape[1] - 1)
        advantages = np.where(np.arange(shape[0]) % 2, -1, 1)[:, None] * np.ones(shape, np.float32)
        advantages[:, : PROMPT_TOKENS - 1] = 0
        peft.forward_backward(tokens, advantages.astype(np.float32), np.full(shape, -8, np.float32))
        peft.step()

    step()
    trained = PROMPTS * SAMPLES * (PROMPT_TOKENS + NEW_TOKENS - 1)
    mine, theirs = rates(trained, step, parts, rounds=ROUNDS - 1)
    work = f"GRPO step, {PROMPTS} × {SAMPLES} × {NEW_TOKENS}"
    return [Comparison(work, "generate + PEFT loop", mine, theirs, "tok/s", target=1.5)]
