"""What a promise can end with, besides the backend's own results."""

from dataclasses import dataclass

from spindle.backends.contract import ForwardBackwardResult, SampleResult


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
class WeightsLoaded:
    path: str
    model_id: str


Result = ForwardBackwardResult | SampleResult | ModelCreated | StepApplied | StateSaved | SamplerSaved | WeightsLoaded
