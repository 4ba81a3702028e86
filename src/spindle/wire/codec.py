"""Protobuf messages to arrays and back, and bounded zstd decompression."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import zstandard
from google.protobuf.message import DecodeError

from spindle.backends.contract import (
    Array,
    Datum,
    ForwardBackward,
    ForwardBackwardResult,
    SampledSequence,
    SampleResult,
    UserError,
)
from spindle.wire import schema_pb2 as schema

MAX_BODY = 256 * 1024 * 1024
"""Bytes of one request, after decompression. Clients split batches at about 5 MB; only one long datum is larger."""

_PIECE = 1 << 20

_DTYPES: dict[int, np.dtype[Any]] = {
    schema.DTYPE_FLOAT32: np.dtype("<f4"),
    schema.DTYPE_INT64: np.dtype("<i8"),
    schema.DTYPE_INT32: np.dtype("<i4"),
}


class BodyError(Exception):
    """A body that cannot be read at all; one sentence."""


def decompress(body: bytes, limit: int = MAX_BODY) -> bytes:
    """A zstd body, read as a stream so that a small one cannot unpack into more than `limit` bytes."""
    content = bytearray()
    try:
        announced = zstandard.frame_content_size(body)
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            while piece := reader.read(_PIECE):
                content += piece
                if len(content) > limit:
                    raise BodyError(f"The body unpacks to more than {limit} bytes.")
    except zstandard.ZstdError as error:
        raise BodyError(f"The body is not valid zstd ({error}).") from error
    if announced not in (-1, len(content)):
        raise BodyError(f"The zstd body ends early: {len(content)} of {announced} bytes.")
    return bytes(content)


# ---- forward_backward


def parse_forward_backward(body: bytes) -> schema.ForwardBackwardRequest:
    """The message of a request body; `BodyError` when it is none."""
    try:
        return schema.ForwardBackwardRequest.FromString(body)
    except DecodeError as error:
        raise BodyError("The body is not a protobuf ForwardBackwardRequest.") from error


def read_forward_backward(message: schema.ForwardBackwardRequest) -> ForwardBackward:
    """The command of a message; `UserError` names the datum and field that cannot be used."""
    config: dict[str, float | str] = dict(message.loss_fn_config)
    for key, value in message.loss_fn_config_v2.items():
        config[key] = value.text if value.WhichOneof("value") == "text" else value.number
    return ForwardBackward(
        model_id=message.model_id,
        data=[_datum(datum, index) for index, datum in enumerate(message.data)],
        loss_fn=message.loss_fn,
        config=config,
        forward_only=message.forward_only,
    )


def _datum(message: schema.Datum, index: int) -> Datum:
    tokens = []
    for chunk in message.model_input:
        kind = chunk.WhichOneof("chunk")
        if kind != "encoded_text":
            raise UserError(
                f"data[{index}].model_input has a chunk of kind {kind}; this server takes text tokens only."
            )
        tokens.append(_buffer(chunk.encoded_text.tokens, np.dtype("<i4"), f"data[{index}].model_input"))
    inputs = {
        name: _tensor(tensor, f"data[{index}].loss_fn_inputs[{name!r}]")
        for name, tensor in message.loss_fn_inputs.items()
    }
    return Datum(np.concatenate(tokens or [np.zeros(0)]).astype(np.int64), inputs)


def _tensor(message: schema.Tensor, where: str) -> Array:
    """A dense array, int64 or float32, of the message's shape (flat when it gives none)."""
    dtype = _DTYPES.get(message.dtype)
    if dtype is None:
        raise UserError(f"{where} has dtype {message.dtype}; expected float32, int64 or int32.")
    shape = tuple(message.shape)
    if message.WhichOneof("encoding") == "sparse_csr":
        array = _from_csr(message.sparse_csr, dtype, shape, where)
    else:
        flat = _buffer(message.dense, dtype, where)
        if shape and (min(shape) < 0 or np.prod(shape, dtype=object) != flat.size):
            raise UserError(f"{where} has {flat.size} values, which do not fill its shape {list(shape)}.")
        array = flat.reshape(shape) if shape else flat
    return array.astype(np.float32 if dtype.kind == "f" else np.int64, copy=False)


def _from_csr(message: schema.SparseCsr, dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> Array:
    if len(shape) != 2 or min(shape) < 0 or shape[0] * shape[1] > MAX_BODY:
        raise UserError(f"{where} is sparse with shape {list(shape)}; expected two dimensions.")
    values = _buffer(message.values, dtype, where)
    starts = _buffer(message.crow_indices, np.dtype("<i8"), where)
    columns = _buffer(message.col_indices, np.dtype("<i8"), where)
    counts = np.diff(starts)
    fits = starts.size == shape[0] + 1 and starts[0] == 0 and starts[-1] == values.size == columns.size
    if not fits or (counts < 0).any() or (columns < 0).any() or (columns >= shape[1]).any():
        raise UserError(f"{where} has sparse indices that do not fit its shape {list(shape)}.")
    dense = np.zeros(shape, dtype)
    dense[np.repeat(np.arange(shape[0]), counts), columns] = values
    return dense


def _buffer(content: bytes, dtype: np.dtype[Any], where: str) -> Array:
    if len(content) % dtype.itemsize:
        raise UserError(f"{where} has {len(content)} bytes, which is no whole number of {dtype.name} values.")
    return np.frombuffer(content, dtype)


def write_forward_backward(result: ForwardBackwardResult) -> bytes:
    """The protobuf form of a result; datums of equal layout share a record."""
    message = schema.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics=result.metrics)
    for _, alike in groupby(result.outputs, key=_layout):
        message.loss_fn_outputs.append(_record(list(alike)))
    return message.SerializeToString()


def _layout(output: dict[str, Array]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(name, array.dtype.str, array.shape[1:]) for name, array in output.items()]


def _record(outputs: Sequence[dict[str, Array]]) -> schema.ArrayRecord:
    record = schema.ArrayRecord(type_tag="ArrayRecord", num_datums=len(outputs))
    for name in outputs[0]:
        arrays = [np.ascontiguousarray(output[name]) for output in outputs]
        offsets = np.cumsum([0, *(array.nbytes for array in arrays)], dtype="<i8")
        field = record.fields[name]
        field.data = b"".join(array.tobytes() for array in arrays)
        field.offsets = offsets.tobytes()
        field.dtype = schema.DTYPE_FLOAT32 if arrays[0].dtype.kind == "f" else schema.DTYPE_INT64
        field.trailing_shape.extend(arrays[0].shape[1:])
    return record


# ---- sample


def write_sample(result: SampleResult) -> bytes:
    """The protobuf form of a result."""
    message = schema.SampleResponse(sequences=[_sequence(sequence) for sequence in result.sequences])
    if result.prompt_logprobs is not None:
        message.prompt_logprobs = result.prompt_logprobs.astype("<f4").tobytes()
    return message.SerializeToString()


def _sequence(sequence: SampledSequence) -> schema.SampledSequence:
    stopped = sequence.stop_reason == "stop"
    return schema.SampledSequence(
        stop_reason=schema.STOP_REASON_STOP if stopped else schema.STOP_REASON_LENGTH,
        tokens=sequence.tokens.astype("<i4").tobytes(),
        logprobs=sequence.logprobs.astype("<f4").tobytes(),
    )
