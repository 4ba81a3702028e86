"""`forward_backward` against a PEFT + torch loop that trains the same modules, in time and memory; many tenants
against one."""

from functools import partial

from benchmarks.comparison import Comparison, rates
from benchmarks.machine import Machine, training_bound
from benchmarks.worker import Worker
from spindle.backends.models import InstalledModel

SHAPES = ((32, 128), (16, 512))
TENANTS = 8


def run(model: InstalledModel, machine: Machine) -> list[Comparison]:
    """Cross-entropy on random tokens, rank 32."""
    bound = training_bound(machine)
    with Worker("spindle", model) as spindle, Worker("libraries", model) as peft:
        spindle.do("create", TENANTS)
        for worker in (spindle, peft):
            worker.do("train", 4, 128)
            worker.do("optimize")
        rows, peaks = [], []
        for sequences, length in SHAPES:
            work = f"forward_backward {sequences}×{length}"
            mine, theirs = rates(
                sequences * length,
                partial(spindle.do, "train", sequences, length),
                partial(peft.do, "train", sequences, length),
            )
            rows.append(Comparison(work, "PEFT + torch", mine, theirs, "tok/s", target=1.2, bound=bound))
            mine, theirs = spindle.do("optimize").peak, peft.do("optimize").peak
            peaks.append(Comparison(f"memory, {sequences}×{length}", "PEFT + torch", mine, theirs, "GiB", target=1.0))
        sequences, length = SHAPES[0]
        many, one = rates(
            sequences * length,
            partial(spindle.do, "train", sequences, length, TENANTS),
            partial(spindle.do, "train", sequences, length),
        )
    work = f"{TENANTS} tenants, {sequences}×{length}"
    return [*rows, *peaks, Comparison(work, "one tenant", many, one, "tok/s", target=0.95, bound=bound)]
