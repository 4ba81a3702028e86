"""Who may do what, and what is kept: sessions, runs, promises, samplers, uploaded losses, checkpoints, limits, keys.

`service.Service` is the whole of it for the wire. Everything but the checkpoint catalogue lives in memory and ends with
the process; checkpoints and what is known about their runs are on disk, whole at every moment.
"""

from spindle.control.promises import Failure, Promise
from spindle.control.service import Service

__all__ = ["Failure", "Promise", "Service"]
