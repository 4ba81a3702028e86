"""LoRA adapters of many models on one set of frozen base weights (Hu et al. 2021, arXiv 2106.09685, eq. 3).

    h = W x + (alpha / r) B A x

A batch holds rows of several adapters; consecutive rows of one adapter form a `Span`. Each `LoraLinear` of a base model
looks up, for each span, the pair (A, B) that its adapter has at that place, if any.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spindle.backends.contract import LoraShape, UserError
from spindle.backends.flags import Flag

HEAD = "model.unembed_tokens"
"""Where an adapter names its part on the output head, tied to the embedding or not."""

_FLAGS = get_args(Flag)


@dataclass(frozen=True)
class LowRank:
    """One pair of matrices, in fp32 whatever the base model's type: products are made in the type of their inputs."""

    a: Tensor
    """[r, in]"""
    b: Tensor
    """[out, r]"""
    scaling: float
    """alpha / r"""


@dataclass(frozen=True)
class Place:
    """A linear map of the base model that may carry a low-rank pair."""

    path: str
    """Module path in `transformers`, e.g. `model.layers.0.self_attn.q_proj`, or `HEAD`."""
    inputs: int
    outputs: int
    flag: Flag
    """Which field of `LoraShape` says whether it is trained."""


@dataclass(frozen=True, eq=False)
class Adapter:
    """The low-rank pairs of one model, by place."""

    shape: LoraShape
    pairs: Mapping[str, LowRank]

    def parameters(self) -> dict[str, Tensor]:
        """Trainable tensors by their name in a checkpoint, less the PEFT prefix."""
        named = {}
        for path, pair in self.pairs.items():
            named[f"{path}.lora_A.weight"] = pair.a
            named[f"{path}.lora_B.weight"] = pair.b
        return named

    def leaf(self) -> "Adapter":
        """The same weights, with gradients of their own."""
        pairs = {
            path: replace(pair, a=pair.a.detach().requires_grad_(), b=pair.b.detach().requires_grad_())
            for path, pair in self.pairs.items()
        }
        return replace(self, pairs=pairs)


@dataclass(frozen=True)
class Span:
    """Consecutive rows of a batch that belong to one adapter (None: the base model alone)."""

    adapter: Adapter | None
    rows: int


@dataclass
class Routing:
    """Which rows of the batch now in the model belong to whom; shared by all layers of a base model."""

    spans: Sequence[Span] = field(default=())

    @contextlib.contextmanager
    def over(self, spans: Sequence[Span]) -> Iterator[None]:
        before = self.spans
        self.spans = spans
        try:
            yield
        finally:
            self.spans = before


@dataclass(frozen=True)
class Part:
    """Rows `start:stop` of a matrix of inputs go through `pair`."""

    start: int
    stop: int
    pair: LowRank


def parts(spans: Sequence[Span], path: str, per_row: int) -> list[Part]:
    """The spans that have a pair at `path`, where each batch row became `per_row` matrix rows."""
    found = []
    start = 0
    for span in spans:
        stop = start + span.rows * per_row
        pair = span.adapter.pairs.get(path) if span.adapter is not None else None
        if pair is not None:
            found.append(Part(start, stop, pair))
        start = stop
    return found


def create_adapter(places: Sequence[Place], shape: LoraShape, device: torch.device) -> Adapter:
    """A new adapter: A uniform in ±1/sqrt(in) as in PEFT, B zero. The same seed gives the same bytes on any device."""
    if shape.seed is None:
        raise ValueError("the seed of a new adapter must be drawn by its creator, who also reports it")
    generator = torch.Generator().manual_seed(shape.seed)
    pairs = {}
    for place in places:
        bound = 1 / math.sqrt(place.inputs)
        a = torch.empty(shape.rank, place.inputs).uniform_(-bound, bound, generator=generator)
        b = torch.zeros(place.outputs, shape.rank)
        pairs[place.path] = LowRank(
            a=a.to(device).requires_grad_(),
            b=b.to(device).requires_grad_(),
            scaling=shape.alpha / shape.rank,
        )
    return Adapter(shape=shape, pairs=pairs)


def selected(places: Sequence[Place], shape: LoraShape) -> list[Place]:
    """The places that a LoRA shape asks to train. Raises `UserError` where the base model has none of them."""
    found = [place for place in places if getattr(shape, place.flag)]
    if not found:
        asked = ", ".join(flag for flag in _FLAGS if getattr(shape, flag))
        offered = ", ".join(flag for flag in _FLAGS if any(place.flag == flag for place in places))
        raise UserError(f"this base model has nothing that {asked} covers; set one of {offered} to true.")
    return found


class LoraLinear(nn.Module):
    """A frozen linear map whose rows may each go through a low-rank pair of their own."""

    def __init__(self, linear: nn.Linear, path: str, routing: Routing) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias
        self.path = path
        self._routing = routing

    def forward(self, inputs: Tensor) -> Tensor:
        """[..., in] to [..., out]; the batch's rows stand one after the other, each as many vectors as the others."""
        matrix = inputs.reshape(-1, inputs.shape[-1])
        spans = self._routing.spans
        found = parts(spans, self.path, per_row=matrix.shape[0] // max(1, sum(span.rows for span in spans)))
        outputs = lora_linear(matrix, self.weight, self.bias, found)
        return outputs.view(*inputs.shape[:-1], -1)


def lora_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None, found: Sequence[Part]) -> Tensor:
    """[n, in] to [n, out]: the frozen map plus each part's low-rank product."""
    if not torch.is_grad_enabled():
        return _forward(inputs, weight, bias, found)[0]
    pairs = [tensor for part in found for tensor in (part.pair.a, part.pair.b)]
    result: Tensor = _LoraLinear.apply(inputs, weight, bias, found, *pairs)  # type: ignore[no-untyped-call]
    return result


def _forward(inputs: Tensor, weight: Tensor, bias: Tensor | None, found: Sequence[Part]) -> tuple[Tensor, list[Tensor]]:
    outputs = steady_linear(inputs, weight, bias)
    inner = []
    for part in found:
        hidden = steady_linear(inputs[part.start : part.stop], part.pair.a.to(inputs.dtype)).mul_(part.pair.scaling)
        _add_product(outputs[part.start : part.stop], hidden, part.pair.b.to(inputs.dtype))
        inner.append(hidden)
    return outputs, inner


def _add_product(outputs: Tensor, hidden: Tensor, b: Tensor) -> None:
    if _padding(*outputs.shape):
        outputs.add_(steady_linear(hidden, b))
    else:
        outputs.addmm_(hidden, b.T)


def steady_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` whose rows do not depend, to the bit, on how many there are."""
    rows, missing = inputs.shape[0], _padding(inputs.shape[0], weight.shape[0])
    if missing:
        return F.linear(F.pad(inputs, (0, 0, 0, missing)), weight, bias)[:rows]
    return F.linear(inputs, weight, bias)


_NARROW = 24


def _padding(rows: int, outputs: int) -> int:
    """Rows to add to a product for the CPU to take the kernel that it takes for many.

    Kernels work on blocks of four rows and compute the rows left over differently as long as there are few; on some
    processors a product of few columns has another kernel where it has fewer rows than columns.
    """
    if outputs < _NARROW:
        return max(0, _NARROW - rows)
    return -rows % 4 if rows < 12 else 0


class _LoraLinear(torch.autograd.Function):
    """Written by hand to save the sums and copies that autograd would make of each [n, out] and [n, in] term."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, found: Sequence[Part], *_: Tensor
    ) -> Tensor:
        outputs, inner = _forward(inputs, weight, bias, found)
        ctx.save_for_backward(inputs, weight, *inner)
        ctx.found = found
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        inputs, weight, *inner = ctx.saved_tensors
        grad_inputs = grad @ weight if ctx.needs_input_grad[0] else None
        grad_pairs: list[Tensor] = []
        for part, hidden in zip(ctx.found, inner, strict=True):
            rows = slice(part.start, part.stop)
            a, b = part.pair.a.detach().to(grad.dtype), part.pair.b.detach().to(grad.dtype)
            grad_hidden = (grad[rows] @ b).mul_(part.pair.scaling)
            if grad_inputs is not None:
                grad_inputs[rows].addmm_(grad_hidden, a)
            grad_pairs += [
                (grad_hidden.T @ inputs[rows]).to(part.pair.a.dtype),
                (grad[rows].T @ hidden).to(part.pair.b.dtype),
            ]
        return (grad_inputs, None, None, None, *grad_pairs)
