"""What the machine's matrix products alone would allow."""

import time
from dataclasses import dataclass

import torch

from benchmarks.comparison import THREADS

ROUNDS = 8


@dataclass(frozen=True)
class Machine:
    """fp32 matmul rates in GFLOP/s, by rows of the left matrix."""

    large: float
    """4096 x 576 x 1536: training and prompts."""
    decode: float
    """64 x 576 x 1536: one token for each of 64 rows."""
    decode_head: float
    """64 x 576 x 49152."""


HIDDEN, MLP, LAYERS, VOCABULARY, KEY_VALUE, RANK = 576, 1536, 30, 49152, 192, 32
"""SmolLM2-135M, and the adapters on it."""
SHAPES = [(HIDDEN, HIDDEN), (HIDDEN, KEY_VALUE), (HIDDEN, KEY_VALUE), (HIDDEN, HIDDEN)]
SHAPES += [(HIDDEN, MLP), (HIDDEN, MLP), (MLP, HIDDEN)]

BODY = LAYERS * sum(rows * columns for rows, columns in SHAPES)
HEAD = HIDDEN * VOCABULARY
ADAPTERS = LAYERS * sum(RANK * (rows + columns) for rows, columns in SHAPES) + RANK * (HIDDEN + VOCABULARY)
"""Multiply-adds per token."""


def measure() -> Machine:
    """Measure the rates; a fraction of a second each."""
    torch.set_num_threads(THREADS)
    return Machine(large=_rate(4096, 576, 1536), decode=_rate(64, 576, 1536), decode_head=_rate(64, 576, 49152))


def training_bound(machine: Machine) -> float:
    """Tokens/s of forward and backward: activation gradients for the frozen weights, both gradients for adapters."""
    return machine.large * 1e9 / (2 * 2 * (BODY + HEAD) + 3 * 2 * ADAPTERS)


def decoding_bound(machine: Machine) -> float:
    """Tokens/s of 64 rows decoded together, without adapters, attention and prompts."""
    return 1e9 / (2 * BODY / machine.decode + 2 * HEAD / machine.decode_head)


def _rate(rows: int, inner: int, columns: int) -> float:
    """Best of several rounds over several weights, so that they come from memory as a network's do."""
    left = torch.randn(rows, inner)
    weights = [torch.randn(columns, inner) for _ in range(max(2, (64 << 20) // (4 * inner * columns)))]
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for weight in weights:
            torch.nn.functional.linear(left, weight)
        best = min(best, time.perf_counter() - begun)
    return 2e-9 * rows * inner * columns * len(weights) / best
