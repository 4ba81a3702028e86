"""Sampling against `transformers.generate`, and llama.cpp where its binding is installed."""

from benchmarks import llama_cpp, ours, peers
from benchmarks.comparison import Comparison, rates
from benchmarks.machine import Machine, Network, decoding_bound
from spindle.backends.models import InstalledModel

PROMPTS, SAMPLES, PROMPT_TOKENS, NEW_TOKENS = 8, 8, 48, 64


def run(model: InstalledModel, machine: Machine) -> list[Comparison]:
    """Several samples of each prompt at temperature 1, no stops, as a step of GRPO draws them."""
    data = peers.random_tokens(PROMPTS, PROMPT_TOKENS)
    spindle = ours.Spindle(model)
    spindle.sample(data[:1], SAMPLES, 2)  # ends the loading in the background: `transformers` loads one at a time
    generate = peers.Generate(model.path)
    generate.sample(data[:1], SAMPLES, 2)
    tokens = PROMPTS * SAMPLES * NEW_TOKENS
    work = f"sample {PROMPTS} prompts × {SAMPLES} × {NEW_TOKENS}"
    bound = decoding_bound(machine, Network.smollm2_135m(ours.RANK))

    def sample() -> None:
        spindle.sample(data, SAMPLES, NEW_TOKENS)

    mine, theirs = rates(tokens, sample, lambda: generate.sample(data, SAMPLES, NEW_TOKENS))
    rows = [Comparison(work, "transformers.generate", mine, theirs, "tok/s", target=1.7, bound=bound)]
    if llama_cpp.installed():
        peer = llama_cpp.LlamaCpp()
        mine, theirs = rates(tokens, sample, lambda: peer.sample(data, SAMPLES, NEW_TOKENS))
        rows.append(Comparison(work, "llama.cpp f16", mine, theirs, "tok/s", target=1.0, bound=bound))
    return rows
