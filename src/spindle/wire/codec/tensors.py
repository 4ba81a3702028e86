"""Arrays as they travel: dense or in compressed rows, in protobuf or in JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spindle.backends.contract import Array, UserError
from spindle.control.results import Cells
from spindle.wire import schema_pb2 as schema

_DTYPES: dict[int, np.dtype[Any]] = {
    schema.DTYPE_FLOAT32: np.dtype("<f4"),
    schema.DTYPE_INT64: np.dtype("<i8"),
    schema.DTYPE_INT32: np.dtype("<i4"),
}
INT32 = np.dtype("<i4")
INT64 = np.dtype("<i8")

DIMENSIONS = 8
"""The most of an array; losses take two at most."""
LONGEST = 2**40
"""Entries of one dimension; an array without any, in another dimension, may claim as many."""


@dataclass
class Budget:
    """Bytes that the sparse arrays of one request may take in all, once they are filled out."""

    left: int

    def take(self, amount: int, where: str) -> None:
        if amount > self.left:
            raise UserError(
                f"{where} fills out to {amount} bytes, more than the {self.left} that are left of the limit body_bytes "
                "for this request; send less in one request."
            )
        self.left -= amount


def read_tensor(message: schema.Tensor, where: str, budget: Budget) -> Array:
    """A dense array of its own, int64 or float32, of the message's shape (flat when it gives none)."""
    dtype = _DTYPES.get(message.dtype)
    if dtype is None:
        raise UserError(f"{where} has dtype {message.dtype}; expected float32, int64 or int32.")
    shape = tuple(message.shape)
    if message.WhichOneof("encoding") == "sparse_csr":
        csr = message.sparse_csr
        cells = Cells(buffer(csr.crow_indices, INT64, where), buffer(csr.col_indices, INT64, where))
        array = filled_out(buffer(csr.values, dtype, where), cells, shape, where, budget)
    else:
        array = shaped(buffer(message.dense, dtype, where), shape, where)
    return array.astype(np.float32 if dtype.kind == "f" else np.int64)


def buffer(content: bytes, dtype: np.dtype[Any], where: str) -> Array:
    """The values in raw bytes."""
    if len(content) % dtype.itemsize:
        raise UserError(f"{where} has {len(content)} bytes, which is no whole number of {dtype.name} values.")
    return np.frombuffer(content, dtype)


def shaped(flat: Array, shape: Sequence[int], where: str) -> Array:
    """Values in their shape; flat when there is none."""
    if len(shape) > DIMENSIONS:
        raise UserError(f"{where} has {len(shape)} dimensions; expected at most {DIMENSIONS}.")
    if shape and (not 0 <= min(shape) <= max(shape) <= LONGEST or np.prod(shape, dtype=object) != flat.size):
        raise UserError(f"{where} has {flat.size} values, which do not fill its shape {list(shape)}.")
    return flat.reshape(shape) if shape else flat


def filled_out(
    values: Array, cells: Cells, shape: Sequence[int], where: str, budget: Budget, missing: int = 0
) -> Array:
    """The dense form of a matrix of which only some cells are listed."""
    if len(shape) != 2 or not 0 <= min(shape) <= max(shape) <= LONGEST:
        raise UserError(f"{where} is sparse with shape {list(shape[:8])}; expected two dimensions.")
    budget.take(shape[0] * shape[1] * values.itemsize, where)
    starts, columns = cells.row_starts, cells.columns
    counts = np.diff(starts)
    fits = starts.size == shape[0] + 1 and starts[0] == 0 and starts[-1] == values.size == columns.size
    if not fits or (counts < 0).any() or (columns < 0).any() or (columns >= shape[1]).any():
        raise UserError(f"{where} has sparse indices that do not fit its shape {list(shape)}.")
    dense = np.full(shape, missing, values.dtype)
    dense[rows_of(cells), columns] = values
    return dense


def rows_of(cells: Cells) -> Array:
    """The row of each listed cell."""
    return np.repeat(np.arange(cells.row_starts.size - 1), np.diff(cells.row_starts))


def write_tensor(array: Array, cells: Cells | None = None) -> schema.Tensor:
    """A matrix as a message: of the listed cells only, where they are given."""
    is_float = array.dtype.kind == "f"
    values = array if cells is None else array[rows_of(cells), cells.columns]
    content = values.astype("<f4" if is_float else "<i8").tobytes()
    message = schema.Tensor(dtype=schema.DTYPE_FLOAT32 if is_float else schema.DTYPE_INT64, shape=array.shape)
    if cells is None:
        message.dense = content
    else:
        message.sparse_csr.values = content
        message.sparse_csr.crow_indices = cells.row_starts.astype(INT64).tobytes()
        message.sparse_csr.col_indices = cells.columns.astype(INT64).tobytes()
    return message


def tensor_json(array: Array) -> Mapping[str, Any]:
    """An array in the JSON form of older clients."""
    dtype = "float32" if array.dtype.kind == "f" else "int64"
    return {"data": array.ravel().tolist(), "dtype": dtype, "shape": list(array.shape)}


def from_numbers(numbers: Sequence[Any], dtype: str, where: str) -> Array:
    """Values that travelled as JSON numbers, as float32 or int64."""
    kinds: dict[str, Callable[[Any], Array]] = {
        "float32": lambda data: np.asarray(data, np.float64).astype(np.float32),
        "int64": lambda data: np.asarray(data, np.int64) if data else np.zeros(0, np.int64),
    }
    if dtype not in kinds:
        raise UserError(f"{where} has dtype {dtype!r}; expected float32 or int64.")
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which the loss refuses by name
            flat = kinds[dtype](numbers)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{where} has values that are no {dtype} numbers ({error}).") from error
    if flat.ndim != 1:
        raise UserError(f"{where} has nested values; expected a flat list and a shape.")
    return flat
