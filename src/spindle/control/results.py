"""What a promise can end with, besides the backend's own results."""

from dataclasses import dataclass

from spindle.backends.contract import Array, ForwardBackwardResult, SampleResult


@dataclass(frozen=True)
class ModelCreated:
    model_id: str


@dataclass(frozen=True)
class StepApplied:
    metrics: dict[str, float]
    """What the optimizer applied, by name."""


@dataclass(frozen=True)
class StateSaved:
    path: str


@dataclass(frozen=True)
class SamplerSaved:
    """A named snapshot has a path, an ephemeral one its sampling session."""

    path: str | None = None
    sampling_session_id: str | None = None


@dataclass(frozen=True)
class ExternalSaved:
    path: str
    size_bytes: int


@dataclass(frozen=True)
class WeightsLoaded:
    path: str
    model_id: str


@dataclass(frozen=True)
class ModelUnloaded:
    model_id: str


@dataclass(frozen=True)
class LossStored:
    """An uploaded loss passed its checks."""

    loss_id: str


@dataclass(frozen=True)
class Cells:
    """The listed cells of a sparse matrix in compressed rows (CSR)."""

    row_starts: Array
    """int64 [rows + 1]"""
    columns: Array
    """int64 [cells]"""


Result = (
    ForwardBackwardResult
    | SampleResult
    | ModelCreated
    | ModelUnloaded
    | LossStored
    | StepApplied
    | StateSaved
    | SamplerSaved
    | ExternalSaved
    | WeightsLoaded
)
