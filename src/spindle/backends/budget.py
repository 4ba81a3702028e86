"""How much is computed at once; here so that it can be told without importing torch."""

TOKENS_AT_ONCE = 1024
"""Tokens in a training pass; activations of a 135M model take about 1 MiB per token in fp32. A longer sequence is
alone."""
