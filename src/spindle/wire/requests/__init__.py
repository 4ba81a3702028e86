"""The JSON bodies of requests, by topic. Unknown fields are ignored: newer clients may send more."""

from spindle.wire.requests.body import Body, Metadata, sentence
from spindle.wire.requests.futures import PromiseAddress
from spindle.wire.requests.models import (
    ECHOED,
    CreateFromState,
    CreateModel,
    Lora,
    ModelAddress,
    NewModelAddress,
    Optimizer,
)
from spindle.wire.requests.sampling import (
    MOST_SAMPLES,
    UNSUPPORTED,
    Chunk,
    CreateSamplingSession,
    ModelInput,
    Sample,
    SampleAddress,
    SamplerAddress,
    Sampling,
)
from spindle.wire.requests.sessions import SessionAddress
from spindle.wire.requests.training import Address, LoadWeights, OptimStep, SaveForSampler, SaveWeights, WeightsInfo

__all__ = [
    "ECHOED",
    "MOST_SAMPLES",
    "UNSUPPORTED",
    "Address",
    "Body",
    "Chunk",
    "CreateFromState",
    "CreateModel",
    "CreateSamplingSession",
    "LoadWeights",
    "Lora",
    "Metadata",
    "ModelAddress",
    "ModelInput",
    "NewModelAddress",
    "OptimStep",
    "Optimizer",
    "PromiseAddress",
    "Sample",
    "SampleAddress",
    "SamplerAddress",
    "Sampling",
    "SaveForSampler",
    "SaveWeights",
    "SessionAddress",
    "WeightsInfo",
    "sentence",
]
