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


@dataclass(frozen=True)
class Network:
    """Multiply-adds per token."""

    body: float
    head: float
    lora_body: float
    lora_head: float

    @classmethod
    def smollm2_135m(cls, rank: int) -> "Network":
        hidden, mlp, layers, vocabulary, kv = 576, 1536, 30, 49152, 192
        shapes = [(hidden, hidden), (hidden, kv), (hidden, kv), (hidden, hidden)]
        shapes += [(hidden, mlp), (hidden, mlp), (mlp, hidden)]
        return cls(
            body=layers * sum(rows * columns for rows, columns in shapes),
            head=hidden * vocabulary,
            lora_body=layers * sum(rank * (rows + columns) for rows, columns in shapes),
            lora_head=rank * (hidden + vocabulary),
        )


def measure() -> Machine:
    """Measure the rates; a fraction of a second each."""
    torch.set_num_threads(THREADS)
    return Machine(large=_rate(4096, 576, 1536), decode=_rate(64, 576, 1536), decode_head=_rate(64, 576, 49152))


def training_bound(machine: Machine, network: Network) -> float:
    """Tokens/s of forward and backward: activation gradients for the frozen weights, both gradients for adapters."""
    frozen = 2 * 2 * (network.body + network.head)
    adapters = 3 * 2 * (network.lora_body + network.lora_head)
    return machine.large * 1e9 / (frozen + adapters)


def decoding_bound(machine: Machine, network: Network, *, adapter: bool = False) -> float:
    """Tokens/s of 64 rows decoded together, without attention and prompts."""
    body = network.body + (network.lora_body if adapter else 0)
    head = network.head + (network.lora_head if adapter else 0)
    return 1e9 / (2 * body / machine.decode + 2 * head / machine.decode_head)


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
