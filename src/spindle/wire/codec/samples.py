"""What comes of sampling requests."""

from typing import Any

import numpy as np

from spindle.backends.contract import Array, SampledSequence, SampleResult, TopK
from spindle.control.results import Cells
from spindle.wire import schema_pb2 as schema
from spindle.wire.codec.tensors import write_tensor

EMPTY_CELL = (0, np.float32(-99999.0))


def write_sample(result: SampleResult, cells: Cells | None = None) -> bytes:
    """The protobuf form of a result; target logprobs of the listed cells only, where the request listed some."""
    message = schema.SampleResponse(
        sequences=[_sequence(sequence) for sequence in result.sequences],
        prompt_cache_hit_tokens=result.prompt_cache_hit_tokens,
    )
    if result.prompt_logprobs is not None:
        message.prompt_logprobs = _floats(result.prompt_logprobs)
    if result.topk_prompt is not None:
        message.topk_prompt_logprobs.CopyFrom(_topk(result.topk_prompt))
    if result.target_prompt_logprobs is not None:
        message.target_prompt_logprobs.CopyFrom(write_tensor(result.target_prompt_logprobs, cells))
    if result.prompt_alt_tokens is not None:
        message.prompt_alt_tokens.tokens.CopyFrom(write_tensor(result.prompt_alt_tokens.token_ids))
        message.prompt_alt_tokens.logprobs.CopyFrom(write_tensor(result.prompt_alt_tokens.logprobs))
    return message.SerializeToString()


def _sequence(sequence: SampledSequence) -> schema.SampledSequence:
    stopped = sequence.stop_reason == "stop"
    message = schema.SampledSequence(
        stop_reason=schema.STOP_REASON_STOP if stopped else schema.STOP_REASON_LENGTH,
        tokens=sequence.tokens.astype("<i4").tobytes(),
        logprobs=_floats(sequence.logprobs),
    )
    if sequence.topk is not None:
        message.topk_sampled_logprobs.CopyFrom(_topk(sequence.topk))
    return message


def _topk(topk: TopK) -> schema.TopkLogprobs:
    length, k = topk.token_ids.shape
    return schema.TopkLogprobs(
        token_ids=topk.token_ids.astype("<i4").tobytes(), logprobs=_floats(topk.logprobs), k=k, length=length
    )


def _floats(array: Array) -> bytes:
    return array.astype("<f4").tobytes()


def sample_json(result: SampleResult) -> dict[str, Any]:
    """The JSON form of a result, for clients that read no protobuf."""
    message: dict[str, Any] = {
        "type": "sample",
        "sequences": [
            {
                "tokens": sequence.tokens.tolist(),
                "logprobs": sequence.logprobs.tolist(),
                "stop_reason": sequence.stop_reason,
            }
            for sequence in result.sequences
        ],
        "prompt_cache_hit_tokens": result.prompt_cache_hit_tokens,
    }
    if (logprobs := result.prompt_logprobs) is not None:
        message["prompt_logprobs"] = [None if np.isnan(value) else float(value) for value in logprobs]
    if (topk := result.topk_prompt) is not None:
        message["topk_prompt_logprobs"] = [
            _cells(ids, values) for ids, values in zip(topk.token_ids, topk.logprobs, strict=True)
        ]
    return message


def _cells(token_ids: Array, logprobs: Array) -> list[tuple[int, float]] | None:
    """The filled cells of one position; None when there are none."""
    filled = [
        (int(token), float(value))
        for token, value in zip(token_ids, logprobs, strict=True)
        if (token, value) != EMPTY_CELL
    ]
    return filled or None
