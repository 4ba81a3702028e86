"""What an experiment script needs beside the training loop: a frozen evaluator, scored arms, their verdict, progress.

Here lives the part of `research_exchange` that talks to a Tinker-compatible service through the stock `tinker` SDK.
Experiments import it; nothing else does. It measures and writes down; what the numbers mean is decided by the same
rules that the Exchange applies (`research_exchange.evaluation`, `research_exchange.decision`), never restated here.
"""

from research_exchange.harness.capacity import CapacityClock, CapacityExhausted, capacity_clock
from research_exchange.harness.comparison import Comparison
from research_exchange.harness.evaluator import Evaluator, Item
from research_exchange.harness.progress import Progress
from research_exchange.harness.provenance import code_revision, effective_config
from research_exchange.harness.rows import jsonl
from research_exchange.harness.scores import ArmScore
from research_exchange.harness.signals import largest_logprob_gap, stability_signals
from research_exchange.harness.work import work_folder

__all__ = [
    "ArmScore",
    "CapacityClock",
    "CapacityExhausted",
    "Comparison",
    "Evaluator",
    "Item",
    "Progress",
    "capacity_clock",
    "code_revision",
    "effective_config",
    "jsonl",
    "largest_logprob_gap",
    "stability_signals",
    "work_folder",
]
