"""The work that all sides are given."""

from typing import Any

import numpy as np

PROMPTS, SAMPLES, PROMPT_TOKENS, NEW_TOKENS = 8, 8, 48, 64
"""A step of GRPO."""


def random_tokens(rows: int, length: int) -> Any:
    """int64 [rows, length] of ordinary token ids."""
    return np.random.default_rng(0).integers(17, 49_000, (rows, length))


def prompts() -> Any:
    """int64 [PROMPTS, PROMPT_TOKENS]"""
    return random_tokens(PROMPTS, PROMPT_TOKENS)
