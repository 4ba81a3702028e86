"""Gradient requests, and what comes of them."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from spindle.backends.contract import Array, Datum, ForwardBackward, ForwardBackwardResult, UserError
from spindle.wire import schema_pb2 as schema
from spindle.wire.codec.bodies import BodyError
from spindle.wire.codec.tensors import INT32, Budget, buffer, read_tensor, tensor_json

MOST_PARTS = 262_144
"""Data, chunks and loss inputs of one request; clients send 1024 data at a time.

An empty one takes two bytes of the body, and hundreds in memory.
"""


def parse_forward_backward(body: bytes) -> schema.ForwardBackwardRequest:
    """The message of a request body; `BodyError` when it is none."""
    try:
        return schema.ForwardBackwardRequest.FromString(body)
    except DecodeError as error:
        raise BodyError("The body is not a protobuf ForwardBackwardRequest.") from error


def read_forward_backward(message: schema.ForwardBackwardRequest, budget: Budget) -> ForwardBackward:
    """The command of a message; `UserError` names the datum and field that cannot be used."""
    _check_parts(message)
    config: dict[str, float | str] = dict(message.loss_fn_config)
    for key, value in message.loss_fn_config_v2.items():
        config[key] = value.text if value.WhichOneof("value") == "text" else value.number
    return ForwardBackward(
        model_id=message.model_id,
        data=[_datum(datum, index, budget) for index, datum in enumerate(message.data)],
        loss_fn=message.loss_fn,
        config=config,
        forward_only=message.forward_only,
    )


def _check_parts(message: schema.ForwardBackwardRequest) -> None:
    parts = len(message.data)
    for datum in message.data[:MOST_PARTS]:
        parts += len(datum.model_input) + len(datum.loss_fn_inputs)
    if parts > MOST_PARTS:
        raise UserError(
            f"data holds {parts} data, chunks and loss inputs, of which one request may have {MOST_PARTS}; "
            "send less in one request."
        )


def _datum(message: schema.Datum, index: int, budget: Budget) -> Datum:
    tokens = []
    for chunk in message.model_input:
        kind = chunk.WhichOneof("chunk")
        if kind != "encoded_text":
            raise UserError(text_only(f"data[{index}].model_input", kind))
        tokens.append(buffer(chunk.encoded_text.tokens, INT32, f"data[{index}].model_input"))
    inputs = {
        name: read_tensor(tensor, f"data[{index}].loss_fn_inputs[{name!r}]", budget)
        for name, tensor in message.loss_fn_inputs.items()
    }
    return Datum(np.concatenate(tokens or [np.zeros(0)]).astype(np.int64), inputs)


def text_only(where: str, kind: str | None) -> str:
    """What is wrong with a chunk that is no text."""
    return f"{where} has a chunk of kind {kind}; this server takes text tokens only."


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


def gradient_json(result: ForwardBackwardResult) -> dict[str, Any]:
    """The JSON form of a result, for clients that read no protobuf."""
    return {
        "loss_fn_output_type": "ArrayRecord",
        "loss_fn_outputs": [{name: tensor_json(array) for name, array in output.items()} for output in result.outputs],
        "metrics": result.metrics,
    }
