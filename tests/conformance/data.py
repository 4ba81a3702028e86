"""Small training data for the tiny model."""

from collections.abc import Sequence

import numpy as np
from tinker import types

TEXT = [20, 35, 42, 35, 42, 7, 99, 20, 35, 42, 35, 42, 7]


def tensor(values: Sequence[float], dtype: type[np.generic]) -> types.TensorData:
    return types.TensorData.from_numpy(np.asarray(values, dtype))


def supervised(tokens: list[int] = TEXT, weight: float = 1.0) -> types.Datum:
    """Next-token prediction over a list of tokens."""
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tensor(tokens[1:], np.int64),
            "weights": tensor([weight] * (len(tokens) - 1), np.float32),
        },
    )


def slow(count: int) -> list[types.Datum]:
    """A batch that takes a while: long sequences that share no prefix, which would be computed once."""
    draw = np.random.default_rng(0)
    return [supervised(draw.integers(1, 257, 500).tolist()) for _ in range(count)]


def policy(prompt: list[int], sequence: types.SampledSequence, advantage: float) -> types.Datum:
    """A sampled completion with one advantage for all its tokens, and zero on the prompt."""
    tokens, silent = prompt + list(sequence.tokens), len(prompt) - 1
    assert sequence.logprobs is not None
    count = len(sequence.tokens)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tensor(tokens[1:], np.int64),
            "logprobs": tensor([0.0] * silent + list(sequence.logprobs), np.float32),
            "advantages": tensor([0.0] * silent + [advantage] * count, np.float32),
        },
    )


def prompt(tokens: list[int] = TEXT) -> types.ModelInput:
    return types.ModelInput.from_ints(tokens)


def logprobs(output: types.ForwardBackwardOutput) -> list["np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]:
    """Per datum, what the loss saw."""
    return [datum["logprobs"].to_numpy() for datum in output.loss_fn_outputs]
