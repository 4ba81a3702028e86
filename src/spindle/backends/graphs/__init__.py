"""Losses that clients trace and upload: read as data, checked, and interpreted within limits.

Nothing of a graph is ever executed as code. Its names are looked up in a fixed table of operations, and an operation
runs only once the size of its result is known to be within the limits. Graphs are those of the Tinker SDK's
`create_custom_loss`: one function of a datum's logprobs and loss inputs.
"""

from spindle.backends.graphs.interpreter import as_loss
from spindle.backends.graphs.parsing import Graph, parse

__all__ = ["Graph", "as_loss", "parse"]
