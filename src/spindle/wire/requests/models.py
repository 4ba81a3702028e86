"""Creating models, fresh or from a saved state."""

from pydantic import ConfigDict, Field

from spindle.backends.contract import LoraShape, OptimizerConfig, UserError
from spindle.wire.requests.body import Body, Metadata

HYPERPARAMETERS = ("learning_rate", "beta1", "beta2", "eps", "weight_decay", "grad_clip_norm")
ECHOED = ("step", "lora", "init_seed")
"""What get_info adds to an optimizer configuration; a client may hand it back."""


class ModelAddress(Body):
    model_id: str


class Optimizer(Body):
    """The family, and any hyperparameter that is to be fixed."""

    model_config = ConfigDict(extra="allow")
    type: str = "adamw"

    def to_contract(self) -> OptimizerConfig:
        given = {name: value for name, value in (self.model_extra or {}).items() if name not in ECHOED}
        for name, value in given.items():
            if name not in HYPERPARAMETERS or isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(
                    f"optimizer_config has {name}={value!r}; the hyperparameters that can be fixed are the numbers "
                    f"{', '.join(HYPERPARAMETERS)}."
                )
        return OptimizerConfig(self.type, {name: float(value) for name, value in given.items()})


class Lora(Body):
    rank: int = 32
    seed: int | None = None
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
    user_metadata: Metadata = {}


class CreateModel(NewModelAddress):
    base_model: str
    lora_config: Lora = Lora()
    optimizer_config: Optimizer = Optimizer()


class CreateFromState(NewModelAddress):
    path: str
    optimizer: bool
    base_model: str | None = None
    optimizer_config: Optimizer | None = None
