"""Speed and memory, side by side with what the libraries do: `python -m benchmarks [NAME ...]`.

Each side works in a process of its own, as its user would start it: Spindle with what it sets for itself, a library
with its defaults.
"""
