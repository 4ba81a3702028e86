"""The engine: every model's commands in their order, and one thread that owns the backend.

`ordering` holds the rule of one model's queue, `commands` what can be queued, `linger` how sampling requests gather
before a batch starts, `sampling` the batches that run, and `engine` the thread that takes turns between training and
sampling, and its persist lane.
"""

from spindle.engine.commands import Command, Work, refusal
from spindle.engine.engine import Engine
from spindle.engine.timing import Timing

__all__ = ["Command", "Engine", "Timing", "Work", "refusal"]
