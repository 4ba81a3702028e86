"""Commands of a training run."""

from typing import Any

from pydantic import Field

from spindle.backends.contract import OptimizerStep, UserError
from spindle.control.records import SaveOptions
from spindle.wire.requests.body import Body, Metadata, Whole
from spindle.wire.requests.models import hyperparameters


class Address(Body):
    """Every command of a training run says whose and which it is."""

    model_id: str
    seq_id: Whole


class LoadWeights(Body):
    path: str
    optimizer: bool


class OptimStep(Body):
    """Either AdamParams, or the parameters of the family that they name as their type."""

    adam_params: dict[str, float] | None = None
    optimizer_params: dict[str, Any] | None = None

    def to_contract(self) -> OptimizerStep:
        if self.optimizer_params is None:
            return OptimizerStep(self.adam_params or {})
        given = dict(self.optimizer_params)
        family = given.pop("type", None)
        if not isinstance(family, str):
            raise UserError(f"optimizer_params.type must name an optimizer family, found {family!r}.")
        return OptimizerStep(hyperparameters("optimizer_params", given), family)


class SaveWeights(Body):
    path: str | None = None
    ttl_seconds: Whole | None = None
    overwrite: bool = False
    user_metadata: Metadata = Field(default_factory=dict)

    def options(self) -> SaveOptions:
        return SaveOptions(self.overwrite, self.ttl_seconds, self.user_metadata)


class SaveForSampler(SaveWeights):
    sampling_session_seq_id: Whole | None = None
    kind: str = "snapshot"


class WeightsInfo(Body):
    tinker_path: str
