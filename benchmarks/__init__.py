"""Speed, side by side with what the libraries do: `python -m benchmarks`, or `run` of one module."""

from spindle.backends.threads import repeat_products, share_cores

share_cores()
repeat_products()
