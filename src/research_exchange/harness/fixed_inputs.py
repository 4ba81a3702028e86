"""Fixed inputs and what a model makes of them, as bytes that are kept and hashed (R-099, R-10A, R-10D)."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinker.types import Datum, ForwardBackwardOutput, TensorData

from research_exchange.client import Evidence, Run

__all__ = ["Exhibit", "input_exhibit", "logprobs", "output_exhibit"]


@dataclass(frozen=True)
class Exhibit:
    """Bytes to be kept as evidence under a name that follows from them: the same bytes, the same file."""

    label: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def name(self) -> str:
        return f"{self.label}-{self.sha256[:12]}.jsonl"

    def retain(self, run: Run, kind: str) -> Evidence:
        """Keep it; keeping it again is harmless."""
        return run.evidence(self.name, kind, self.content)


def input_exhibit(data: Sequence[Datum], label: str = "fixed-batch") -> Exhibit:
    """Token ids, targets, masks and every other loss input of a batch, one JSON line a sequence."""
    rows = [
        {
            "tokens": datum.model_input.to_ints(),
            "loss_fn_inputs": {name: _tensor(values) for name, values in sorted(datum.loss_fn_inputs.items())},
        }
        for datum in data
    ]
    return Exhibit(label, _lines(rows))


def output_exhibit(output: ForwardBackwardOutput, label: str = "initial-output") -> Exhibit:
    """Every logprob of a batch, one JSON line a sequence, in as many digits as bring a float32 back."""
    return Exhibit(label, _lines([{"logprobs": sequence.tolist()} for sequence in logprobs(output)]))


def logprobs(output: ForwardBackwardOutput) -> list[NDArray[np.float64]]:
    """The model's logprobs of the targets, one array a sequence, in double precision."""
    return [np.asarray(result["logprobs"].to_numpy(), dtype=np.float64) for result in output.loss_fn_outputs]


def _tensor(values: TensorData) -> dict[str, Any]:
    array = values.to_numpy()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": array.ravel().tolist()}


def _lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
