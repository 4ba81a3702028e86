"""The JSON bodies of requests, by topic. Unknown fields are ignored: newer clients may send more."""

from spindle.wire.requests.body import (
    Body,
    Metadata,
    Whole,
    sentence,
)
from spindle.wire.requests.checkpoints import (
    CopyWeights,
    SaveExternal,
    Ttl,
)
from spindle.wire.requests.futures import (
    PromiseAddress,
    RetrieveFutures,
)
from spindle.wire.requests.gradients import (
    CreateCustomLoss,
    CustomLossAddress,
    Gradient,
)
from spindle.wire.requests.models import (
    CreateFromState,
    CreateModel,
    ModelAddress,
    NewModelAddress,
    Optimizer,
)
from spindle.wire.requests.sampling import (
    MOST_SAMPLES,
    CreateSamplingSession,
    Sample,
    SampleAddress,
    SamplerAddress,
    Sampling,
)
from spindle.wire.requests.sessions import (
    AssignProject,
    CreateSession,
    FinishSession,
    SearchSessions,
    SessionAddress,
    Typed,
)
from spindle.wire.requests.training import (
    Address,
    LoadWeights,
    OptimStep,
    SaveForSampler,
    SaveWeights,
    WeightsInfo,
)

__all__ = [
    "MOST_SAMPLES",
    "Address",
    "AssignProject",
    "Body",
    "CopyWeights",
    "CreateCustomLoss",
    "CreateFromState",
    "CreateModel",
    "CreateSamplingSession",
    "CreateSession",
    "CustomLossAddress",
    "FinishSession",
    "Gradient",
    "LoadWeights",
    "Metadata",
    "ModelAddress",
    "NewModelAddress",
    "OptimStep",
    "Optimizer",
    "PromiseAddress",
    "RetrieveFutures",
    "Sample",
    "SampleAddress",
    "SamplerAddress",
    "Sampling",
    "SaveExternal",
    "SaveForSampler",
    "SaveWeights",
    "SearchSessions",
    "SessionAddress",
    "Ttl",
    "Typed",
    "WeightsInfo",
    "Whole",
    "sentence",
]
