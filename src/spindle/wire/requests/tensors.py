"""Tensors and token sequences as older clients, and all clients' sampling requests, write them."""

from typing import Any

import numpy as np
from pydantic import Field

from spindle.backends.contract import Array, UserError
from spindle.control.results import Cells
from spindle.wire.codec.gradients import text_only
from spindle.wire.codec.tensors import Budget, filled_out, from_numbers, shaped
from spindle.wire.requests.body import Body, Whole


class Chunk(Body):
    type: str = "encoded_text"
    tokens: list[Whole] = Field(default_factory=list)


class ModelInput(Body):
    chunks: list[Chunk]

    def tokens(self, where: str) -> Array:
        """All tokens, int64 [N]; `UserError` for anything but text."""
        for chunk in self.chunks:
            if chunk.type != "encoded_text":
                raise UserError(text_only(where, chunk.type))
        return np.asarray([token for chunk in self.chunks for token in chunk.tokens], np.int64)


class Tensor(Body):
    data: list[Any]
    dtype: str
    shape: list[Whole] | None = None
    sparse_crow_indices: list[Whole] | None = None
    sparse_col_indices: list[Whole] | None = None

    @property
    def cells(self) -> Cells | None:
        """The listed cells of a sparse matrix; None for a dense array."""
        if self.sparse_crow_indices is None:
            return None
        return Cells(
            np.asarray(self.sparse_crow_indices, np.int64), np.asarray(self.sparse_col_indices or (), np.int64)
        )

    def array(self, where: str, budget: Budget, missing: int = 0) -> Array:
        """The dense array, int64 or float32; cells that a sparse one does not list are `missing`."""
        flat = from_numbers(self.data, self.dtype, where)
        cells = self.cells
        if cells is None:
            return shaped(flat, self.shape or (), where)
        return filled_out(flat, cells, self.shape or (), where, budget, missing)
