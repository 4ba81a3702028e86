"""Answers sampled in groups, and the sequences that a policy gradient learns from."""

from collections.abc import Sequence

import numpy as np
import tinker
from tinker.types import Datum, ModelInput, SampledSequence, SamplingParams, TensorData

__all__ = ["policy_datum", "sample_groups", "scored_datum", "weighted"]


def sample_groups(
    sampler: tinker.SamplingClient,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    max_tokens: int,
    stop: Sequence[str] = (),
    seed: int,
    topk: int = 0,
) -> list[list[SampledSequence]]:
    """A group of answers to each prompt, at temperature 1 and from the whole vocabulary: the sampler's own law.

    Args:
        prompts: Token ids.
        stop: Texts that end an answer; without any, the model's own end of sequence does.
        seed: Of the first prompt; each further one takes the next number.
        topk: How many of the likeliest tokens come with each sampled one, as `topk_logprobs`.
    """
    pending = [
        sampler.sample(
            ModelInput.from_ints(list(prompt)),
            num_samples=group_size,
            sampling_params=SamplingParams(
                temperature=1.0, max_tokens=max_tokens, stop=list(stop) or None, seed=seed + number
            ),
            topk_sample_logprobs=topk,
        )
        for number, prompt in enumerate(prompts)
    ]
    return [list(future.result().sequences) for future in pending]


def policy_datum(prompt: Sequence[int], answer: SampledSequence, advantage: float) -> Datum:
    """One sequence for `importance_sampling` and its kin: at each position the next token, and what it is worth.

    Tokens of the prompt have logprob and advantage 0, so they carry no gradient.
    """
    tokens = [*prompt, *answer.tokens]
    nothing = [0.0] * (len(prompt) - 1)
    worth = [advantage] * len(answer.tokens)
    return _datum(tokens, logprobs=[*nothing, *(answer.logprobs or [])], advantages=[*nothing, *worth])


def weighted(data: Sequence[Datum], values: Sequence[float]) -> list[Datum]:
    """The same sequences with their advantages times a value each; those with the value 0 are left out."""
    return [
        Datum(
            model_input=datum.model_input,
            loss_fn_inputs={
                **datum.loss_fn_inputs,
                "advantages": TensorData.from_numpy(
                    (value * datum.loss_fn_inputs["advantages"].to_numpy()).astype(np.float32)
                ),
            },
        )
        for datum, value in zip(data, values, strict=True)
        if value != 0
    ]


def scored_datum(tokens: Sequence[int]) -> Datum:
    """One sequence for `cross_entropy` with weight 1 on every token but the first."""
    return _datum(tokens, weights=[1.0] * (len(tokens) - 1))


def _datum(tokens: Sequence[int], **inputs: Sequence[float]) -> Datum:
    targets = TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64))
    others = {name: TensorData.from_numpy(np.array(values, dtype=np.float32)) for name, values in inputs.items()}
    return Datum(
        model_input=ModelInput.from_ints(list(tokens[:-1])), loss_fn_inputs={"target_tokens": targets, **others}
    )
