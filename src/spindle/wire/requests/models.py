"""Creating models, fresh or from a saved state."""

from collections.abc import Mapping

from pydantic import ConfigDict, Field

from spindle.backends.contract import LoraShape, OptimizerConfig, UserError
from spindle.wire.requests.body import Body, Metadata, Whole

ECHOED = ("step", "lora", "init_seed")
"""What get_info adds to an optimizer configuration; a client may hand it back."""

LARGEST = 1e300
"""JSON has integers that are no floating-point number."""


class ModelAddress(Body):
    model_id: str


def hyperparameters(where: str, given: Mapping[str, object]) -> dict[str, float | str]:
    """Numbers as floats, flags as 0 and 1, text as it is; which of them an optimizer has is not known here."""
    read: dict[str, float | str] = {}
    for name, value in given.items():
        if isinstance(value, str):
            read[name] = value
        elif isinstance(value, int | float) and abs(value) < LARGEST:
            read[name] = float(value)
        else:
            raise UserError(f"{where} has {name}={str(value)[:80]}; a hyperparameter is a finite number or a text.")
    return read


class Optimizer(Body):
    """The family, any hyperparameter that is to be fixed, and the hash of the plugin that the family must come from."""

    model_config = ConfigDict(extra="allow")
    type: str = "adamw"
    plugin_sha256: str | None = None

    def to_contract(self) -> OptimizerConfig:
        given = {name: value for name, value in (self.model_extra or {}).items() if name not in ECHOED}
        return OptimizerConfig(self.type, hyperparameters("optimizer_config", given), self.plugin_sha256)


class Lora(Body):
    rank: Whole = 32
    seed: Whole | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True

    def to_contract(self) -> LoraShape:
        return LoraShape(
            rank=self.rank,
            seed=self.seed,
            train_attn=self.train_attn,
            train_mlp=self.train_mlp,
            train_unembed=self.train_unembed,
        )


class NewModelAddress(Body):
    """Every creation says in which session, and which of its models it makes."""

    session_id: str
    model_seq_id: int = Field(ge=0, lt=10**9)
    user_metadata: Metadata = Field(default_factory=dict)


class CreateModel(NewModelAddress):
    base_model: str
    lora_config: Lora = Lora()
    optimizer_config: Optimizer = Optimizer()


class CreateFromState(NewModelAddress):
    path: str
    optimizer: bool
    base_model: str | None = None
    optimizer_config: Optimizer | None = None
