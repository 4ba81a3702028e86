"""Sampling against `transformers.generate`, and llama.cpp where its binding is installed; and a whole step of GRPO."""

from functools import partial

from benchmarks import llama_cpp
from benchmarks.comparison import Comparison, rates
from benchmarks.data import NEW_TOKENS, PROMPT_TOKENS, PROMPTS, SAMPLES
from benchmarks.machine import Machine, decoding_bound
from benchmarks.worker import Worker
from spindle.backends.models import InstalledModel

SHAPE = f"{PROMPTS} prompts × {SAMPLES} × {NEW_TOKENS}"


def run(model: InstalledModel, machine: Machine) -> list[Comparison]:
    """Several samples of each prompt at temperature 1, no stops, as a step of GRPO draws them."""
    peers = {"transformers.generate": ("libraries", 1.7)}
    if llama_cpp.installed():
        peers["llama.cpp f16"] = ("llama.cpp", 1.0)
    bound = decoding_bound(machine)
    rows = []
    for name, (side, target) in peers.items():
        with Worker("spindle", model) as spindle, Worker(side, model) as peer:
            for worker in (spindle, peer):
                worker.do("sample", 4)
            tokens = PROMPTS * SAMPLES * NEW_TOKENS
            mine, theirs = rates(tokens, partial(spindle.do, "sample"), partial(peer.do, "sample"))
            rows.append(Comparison(f"sample {SHAPE}", name, mine, theirs, "tok/s", target=target, bound=bound))
            if side == "libraries":
                peak = spindle.do("sample", 4).peak
                rows.append(Comparison("memory, sampling", "the 4 GiB allowed", peak, 4.0, "GiB", target=1.0))
    return rows


def grpo(model: InstalledModel, _: Machine) -> list[Comparison]:
    """Roll out, learn, update. Spindle samples through its adapter; the library samples the bare base weights."""
    trained = PROMPTS * SAMPLES * (PROMPT_TOKENS + NEW_TOKENS - 1)
    with Worker("spindle", model) as spindle, Worker("libraries", model) as libraries:
        spindle.do("create", 1)
        for worker in (spindle, libraries):
            worker.do("train", 2, 128)
            worker.do("optimize")
            worker.do("sample", 4)
        mine, theirs = rates(trained, partial(spindle.do, "grpo_step"), partial(libraries.do, "grpo_step"))
    return [Comparison(f"GRPO step, {SHAPE}", "generate + PEFT loop", mine, theirs, "tok/s", target=1.5)]
