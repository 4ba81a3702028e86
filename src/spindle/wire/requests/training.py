"""Commands of a training run."""

from typing import Any

from spindle.backends.contract import AdamParams, UserError
from spindle.control.records import SaveOptions
from spindle.wire.requests.body import Body, Metadata
from spindle.wire.requests.models import HYPERPARAMETERS


class Address(Body):
    """Every command of a training run says whose and which it is."""

    model_id: str
    seq_id: int


class LoadWeights(Body):
    path: str
    optimizer: bool


class OptimStep(Body):
    adam_params: dict[str, float] | None = None
    optimizer_params: dict[str, Any] | None = None

    def to_contract(self) -> AdamParams:
        if self.adam_params is None:
            family = (self.optimizer_params or {}).get("type")
            raise UserError(f"optim_step was given optimizer family {family!r}; this server has adamw (AdamParams).")
        unknown = sorted(self.adam_params.keys() - HYPERPARAMETERS)
        if unknown:
            raise UserError(f"optim_step has unknown parameters {', '.join(unknown)}.")
        return AdamParams(**self.adam_params)


class SaveWeights(Body):
    path: str | None = None
    ttl_seconds: int | None = None
    overwrite: bool = False
    user_metadata: Metadata = {}

    def options(self) -> SaveOptions:
        return SaveOptions(self.overwrite, self.ttl_seconds, self.user_metadata)


class SaveForSampler(SaveWeights):
    sampling_session_seq_id: int | None = None
    kind: str = "snapshot"


class WeightsInfo(Body):
    tinker_path: str
