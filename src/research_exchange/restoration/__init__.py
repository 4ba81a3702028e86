"""The restoration gate: paired arms started from one and the same adapter, each with its own optimizer (contract §8).

Equal seeds, equal losses and equal base accuracies show nothing about it, because a fresh adapter changes no output
(R-096). What shows it is a measured hash or a checkpoint that was really loaded, seen before the first update, and a
response of the server about the optimizer after every restore.
"""

from research_exchange.restoration.gate import plan_problems, read_restoration

__all__ = ["plan_problems", "read_restoration"]
