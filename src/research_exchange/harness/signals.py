"""Signals that tell whether a policy gradient stands on solid ground."""

from collections.abc import Sequence

import numpy as np
from tinker.types import Datum, ForwardBackwardOutput


def largest_logprob_gap(data: Sequence[Datum], output: ForwardBackwardOutput) -> float:
    """max |log p_learner - log p_sampler| over the sampled tokens, in nats.

    Importance sampling divides the learner's probability of a token by the sampler's. Before the first update both
    hold the same weights, so whatever differs is numerical error, and the gap should be next to nothing.

    Args:
        data: sequences with loss inputs `logprobs` (the sampler's) and `advantages`, as `importance_sampling` takes
            them; tokens without an advantage carry no gradient and are left out.
        output: what `forward_backward` answered for these sequences.
    """
    gaps = [0.0]
    for datum, result in zip(data, output.loss_fn_outputs, strict=True):
        counted = datum.loss_fn_inputs["advantages"].to_numpy() != 0
        gap = np.abs(result["logprobs"].to_numpy() - datum.loss_fn_inputs["logprobs"].to_numpy())
        gaps.extend(gap[counted].tolist())
    return max(gaps)
