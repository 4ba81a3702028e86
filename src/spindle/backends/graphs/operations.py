"""What a graph may call: names as the client's tracer spells them, each with its callable and a bound on its size.

Left out on purpose: whatever is random, writes in place, shows memory that was not set (`empty`), leaves torch
(`item`, `numpy`), is steered by a string (`einsum`), has a result whose size depends on values without a bound, or
takes more than about linear time in the size of its arguments and result. Products are of matrices and vectors alone.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F

from spindle.backends.graphs import sizes


@dataclass(frozen=True)
class Operation:
    """One entry of the table."""

    call: Callable[..., Any]
    bound: sizes.Bound
    """The largest number of elements that the call may allocate, found without making it."""


_ELEMENTWISE = """
    abs absolute neg negative positive exp exp2 expm1 log log1p log2 log10 sqrt rsqrt square reciprocal sigmoid logit
    tanh sinh cosh sin cos tan asin acos atan asinh acosh atanh atan2 erf erfc erfinv lgamma digamma sign sgn floor ceil
    round trunc frac relu clamp clip clamp_min clamp_max nan_to_num isnan isinf isfinite isneginf isposinf logical_not
    logical_and logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor add sub subtract mul multiply
    true_divide floor_divide remainder fmod pow float_power maximum minimum fmax fmin logaddexp logaddexp2 hypot
    xlogy lerp eq ne not_equal lt less le less_equal gt greater ge greater_equal copysign heaviside addcmul addcdiv
    masked_fill masked_select max min clone detach
"""
_SHRINKING = """
    sum mean prod amax amin argmax argmin std var median nansum nanmean logsumexp norm all any count_nonzero cumsum
    logcumsumexp cummax cummin softmax log_softmax aminmax sort argsort topk kthvalue reshape flatten squeeze unsqueeze
    transpose t permute movedim swapaxes swapdims narrow select flip tril triu diagonal numel
"""
_MEASURED = """
    broadcast_to tile repeat_interleave index_select gather take_along_dim take scatter scatter_add index_add diag outer
"""
_PIECES = "chunk split unbind"
_PRODUCTS = "matmul mm mv dot"

_MEASURED_FUNCTIONS = "cat concat concatenate stack hstack vstack zeros_like ones_like full_like"
_MADE_FUNCTIONS = "zeros ones full arange linspace eye"
_SHRINKING_METHODS = """
    view view_as reshape_as type_as float double half bfloat16 int long short bool size dim ndimension nelement
    contiguous is_floating_point
"""
_MEASURED_METHODS = "expand expand_as repeat unflatten new_zeros new_ones new_full to"

_FUNCTIONAL = """
    relu softplus logsigmoid softmax log_softmax sigmoid tanh silu gelu elu leaky_relu hardtanh relu6 mse_loss l1_loss
    smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits
"""
_SPELLED: Final = {
    "torch._C._nn.softplus": "torch.nn.functional.softplus",
    "torch._C._nn.log_sigmoid": "torch.nn.functional.logsigmoid",
    "torch._C._nn.gelu": "torch.nn.functional.gelu",
    "torch.functional.split": "torch.split",
    "torch.functional.norm": "torch.norm",
    "torch._C._special.special_expit": "torch.sigmoid",
    "torch._C._special.special_xlogy": "torch.xlogy",
}
"""Names that the tracer takes from where a function is defined."""

_MATH = """
    sqrt exp expm1 log log1p log2 log10 pow floor ceil trunc fabs fmod copysign hypot sin cos tan asin acos atan atan2
    sinh cosh tanh asinh acosh atanh erf erfc gamma lgamma degrees radians isnan isinf isfinite
"""
_OPERATORS = """
    add sub mul truediv floordiv mod pow eq ne lt le gt ge and_ or_ xor neg pos abs invert not_
"""
_OF_TENSORS: Final = ("shape", "ndim", "dtype", "device", "T", "mT")
_OF_RESULTS: Final = ("values", "indices", "min", "max")
"""Parts of what `max`, `sort` or `aminmax` return."""


def _attribute(value: Any, name: Any, /) -> Any:
    """`getattr` for what a tensor says about itself, and for the parts of a result."""
    allowed = _OF_TENSORS if isinstance(value, torch.Tensor) else _OF_RESULTS if isinstance(value, tuple) else ()
    if name not in allowed:
        raise ValueError(f"the attribute {name!r} is not allowed; a tensor has {', '.join(_OF_TENSORS)}")
    return getattr(value, name)


def _of_number(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `math`, to which a tensor of one element is a number."""

    def call(*args: Any) -> Any:
        return function(*(arg.detach().item() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return call


def _table(names: str, source: Any, prefix: str, bound: sizes.Bound) -> dict[str, Operation]:
    return {f"{prefix}{name}": Operation(getattr(source, name), bound) for name in names.split()}


def _shared(source: Any, prefix: str) -> dict[str, Operation]:
    """What torch has as functions and as methods alike."""
    return {
        **_table(_ELEMENTWISE, source, prefix, sizes.broadcast),
        **_table(_SHRINKING, source, prefix, sizes.shrinking),
        **_table(_MEASURED, source, prefix, sizes.measured),
        **_table("div divide", source, prefix, sizes.quotient),
        **_table(_PIECES, source, prefix, sizes.pieces),
        **_table(_PRODUCTS, source, prefix, sizes.product),
        **_table("where", source, prefix, sizes.either),
    }


def _functions() -> dict[str, Operation]:
    table = {
        **_shared(torch, "torch."),
        **_table(_MEASURED_FUNCTIONS, torch, "torch.", sizes.measured),
        **_table(_MADE_FUNCTIONS, torch, "torch.", sizes.made),
        **_table(_FUNCTIONAL, F, "torch.nn.functional.", sizes.broadcast),
        **_table(_OPERATORS, operator, "operator.", sizes.arithmetic),
        **{f"math.{name}": Operation(_of_number(getattr(math, name)), sizes.nothing) for name in _MATH.split()},
        "operator.matmul": Operation(operator.matmul, sizes.product),
        "operator.getitem": Operation(operator.getitem, sizes.indexed),
        "getattr": Operation(_attribute, sizes.nothing),
    }
    return table | {spelled: table[name] for spelled, name in _SPELLED.items()}


def _methods() -> dict[str, Operation]:
    return {
        **_shared(torch.Tensor, ""),
        **_table(_SHRINKING_METHODS, torch.Tensor, "", sizes.shrinking),
        **_table(_MEASURED_METHODS, torch.Tensor, "", sizes.measured),
    }


FUNCTIONS: Final = _functions()
METHODS: Final = _methods()
