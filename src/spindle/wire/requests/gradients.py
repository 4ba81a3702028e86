"""Gradient requests in JSON, as clients up to 0.24 send them, and uploaded losses."""

from typing import Any

from pydantic import Field

from spindle.backends.contract import Datum, ForwardBackward, UserError
from spindle.wire.codec.tensors import Budget
from spindle.wire.requests.body import Body, Whole
from spindle.wire.requests.tensors import ModelInput, Tensor

MOST_INPUTS = 16
"""Inputs of an uploaded loss."""


class JsonDatum(Body):
    model_input: ModelInput
    loss_fn_inputs: dict[str, Tensor]

    def to_contract(self, index: int, budget: Budget) -> Datum:
        return Datum(
            self.model_input.tokens(f"data[{index}].model_input"),
            {
                name: tensor.array(f"data[{index}].loss_fn_inputs[{name!r}]", budget)
                for name, tensor in self.loss_fn_inputs.items()
            },
        )


class GradientInput(Body):
    data: list[JsonDatum]
    loss_fn: str
    loss_fn_config: dict[str, float | str] | None = None


class Gradient(Body):
    """One of the two inputs says what is to be done."""

    forward_input: GradientInput | None = None
    forward_backward_input: GradientInput | None = None

    def to_contract(self, model_id: str, budget: Budget) -> ForwardBackward:
        given = self.forward_backward_input or self.forward_input
        if given is None:
            raise UserError("The request has no forward_backward_input and no forward_input.")
        return ForwardBackward(
            model_id=model_id,
            data=[datum.to_contract(index, budget) for index, datum in enumerate(given.data)],
            loss_fn=given.loss_fn,
            config=given.loss_fn_config or {},
            forward_only=self.forward_backward_input is None,
        )


class LossInput(Body):
    name: str
    rank: Whole


class CustomLossAddress(Body):
    session_id: str
    custom_loss_seq_id: Whole


class CreateCustomLoss(CustomLossAddress):
    name: str
    inputs: list[LossInput] = Field(max_length=MOST_INPUTS)
    graph: dict[str, Any]

    def ranks(self) -> dict[str, int]:
        """The inputs' ranks by name; `UserError` when two have the same name."""
        ranks = {given.name: given.rank for given in self.inputs}
        if len(ranks) != len(self.inputs):
            raise UserError(f"The inputs of loss {self.name!r} have a name twice; give each a name of its own.")
        return ranks
