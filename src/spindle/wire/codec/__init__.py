"""What travels, turned into arrays and back: tensors, gradient requests, results, compressed bodies."""

from spindle.wire.codec.bodies import BodyError, address_of, decompress
from spindle.wire.codec.gradients import (
    gradient_json,
    parse_forward_backward,
    read_forward_backward,
    write_forward_backward,
)
from spindle.wire.codec.samples import sample_json, write_sample
from spindle.wire.codec.tensors import Budget

__all__ = [
    "BodyError",
    "Budget",
    "address_of",
    "decompress",
    "gradient_json",
    "parse_forward_backward",
    "read_forward_backward",
    "sample_json",
    "write_forward_backward",
    "write_sample",
]
