"""`forward_backward` against a PEFT + torch loop that trains the same modules, and eight tenants against one."""

from functools import partial

from benchmarks import ours, peers
from benchmarks.comparison import Comparison, rates
from benchmarks.machine import Machine, Network, training_bound
from spindle.backends.models import InstalledModel

SHAPES = ((32, 128), (16, 512))
TENANTS = 8


def run(model: InstalledModel, machine: Machine) -> list[Comparison]:
    """Cross-entropy on random tokens, rank 32."""
    spindle, peft = ours.Spindle(model), peers.Peft(model.path)
    bound = training_bound(machine, Network.smollm2_135m(ours.RANK))
    for warm in (spindle, peft):
        warm.forward_backward(peers.random_tokens(2, 129))
        warm.step()
    rows = []
    for sequences, length in SHAPES:
        data = peers.random_tokens(sequences, length + 1)
        mine, theirs = rates(
            sequences * length, partial(spindle.forward_backward, data), partial(peft.forward_backward, data)
        )
        work = f"forward_backward {sequences}×{length}"
        rows.append(Comparison(work, "PEFT + torch", mine, theirs, "tok/s", target=1.2, bound=bound))
    return rows


def tenants(model: InstalledModel, machine: Machine) -> list[Comparison]:
    """The same tokens trained by eight adapters and by one."""
    many, one = ours.Spindle(model, TENANTS), ours.Spindle(model)
    data = peers.random_tokens(32, 129)
    for warm in (many, one):
        warm.forward_backward(data[:TENANTS])
    mine, theirs = rates(32 * 128, lambda: many.forward_backward(data), lambda: one.forward_backward(data))
    bound = training_bound(machine, Network.smollm2_135m(ours.RANK))
    work = f"forward_backward 32×128, {TENANTS} tenants"
    return [Comparison(work, "one tenant", mine, theirs, "tok/s", target=0.95, bound=bound)]
