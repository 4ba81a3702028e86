"""Speed, side by side with what the libraries do: `python -m benchmarks`, or `run` of one module."""

from spindle.backends.threads import share_cores

share_cores()
