"""How large the result of a call would be, found before it is made.

Each bound takes the callable and its arguments, and returns a number of elements that covers the result and whatever
the call allocates on the way. Raises `TooLarge`, or whatever torch raises about the arguments.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Bound = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], int]

MOST_PIECES = 1024
"""Tensors that one call may return."""
_WHOLE = 1 << 63
_META = torch.device("meta")


class TooLarge(Exception):
    """A call that would go beyond a limit; the text says which."""


def nothing(_: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Results that take no memory to speak of."""
    return 0


def broadcast(_: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Results of the shape that the tensors among the arguments have together, or of fewer elements."""
    shapes = [tensor.shape for tensor in tensors([args, kwargs])]
    return math.prod(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def quotient(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Division; cutting the least whole number divided by -1 towards zero would end the process (SIGFPE)."""
    whole = not any(isinstance(arg, float) for arg in args)
    whole = whole and not any(tensor.is_floating_point() for tensor in tensors([args, kwargs]))
    if whole and kwargs.get("rounding_mode") == "trunc":
        raise ValueError("cuts whole numbers towards zero; round them to the floor, or divide floating point")
    return broadcast(call, args, kwargs)


def shrinking(_: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Results with at most as many elements as the largest argument."""
    return max((tensor.numel() for tensor in tensors([args, kwargs])), default=0)


def measured(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Results whose size torch works out from the sizes of the arguments, without memory (the meta device)."""
    with torch.no_grad():
        result = call(*_on_meta(args), **_on_meta(kwargs))
    return sum(tensor.numel() for tensor in tensors(result))


def made(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Results that are made from numbers alone, on the device that they are told."""
    return measured(call, args, {**kwargs, "device": _META})


def product(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Products of matrices and vectors; those of batches would be broadcast in memory."""
    if any(tensor.ndim > 2 for tensor in tensors([args, kwargs])):
        raise ValueError("products are of tensors of one or two dimensions")
    return measured(call, args, kwargs)


def either(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """`where` with a choice; a condition alone would give as many indices as it has true elements."""
    if len(args) + len(kwargs) != 3:
        raise ValueError("takes a condition and two values")
    return broadcast(call, args, kwargs)


def pieces(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Parts of a tensor, of which there may be only so many: each takes memory of its own."""
    whole = args[0]
    unbind = call.__name__ == "unbind"
    given = dict(zip(("dim",) if unbind else ("by", "dim"), args[1:], strict=False))
    by = given.get("by", next((value for name, value in kwargs.items() if name != "dim"), 1))
    length = whole.shape[kwargs.get("dim", given.get("dim", 0))]
    count = by if call.__name__ == "chunk" else -(-length // by) if isinstance(by, int) else len(by)
    if count > MOST_PIECES:
        raise TooLarge(f"would cut a tensor into {count} pieces; at most {MOST_PIECES} are allowed")
    return int(whole.numel())


def arithmetic(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Python's operators between tensors and numbers, whole numbers staying within 64 bits."""
    if kwargs or not all(isinstance(arg, Tensor | int | float) for arg in args):
        raise ValueError("takes tensors and numbers")
    if call.__name__ == "pow" and all(isinstance(arg, int) for arg in args):
        base, exponent = args
        if abs(base) > 1 and exponent > 63:
            raise TooLarge("would give a whole number of more than 64 bits")
    return broadcast(call, args, kwargs)


def indexed(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """`value[index]`; a mask selects at most what it covers."""
    value, index = args
    if not isinstance(value, Tensor):
        if not isinstance(value, tuple) or not isinstance(index, int | slice):
            raise ValueError("indexes something that is not a tensor, a shape or a result of several parts")
        return 0
    items = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(item, Tensor | list) for item in items):
        return value.numel()
    flat: list[Any] = []
    for item in items:
        is_mask = isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8)
        flat += item.nonzero(as_tuple=True) if is_mask and item.ndim else [item]
    return measured(call, (value, tuple(flat)), kwargs)


def tensors(value: Any) -> list[Tensor]:
    """The tensors within arguments or a result."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def check_whole(value: Any) -> None:
    """Raise `TooLarge` for a whole number of more than 64 bits."""
    if isinstance(value, int) and not -_WHOLE <= value < _WHOLE:
        raise TooLarge("gives a whole number of more than 64 bits")


def _on_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, torch.device):
        return _META
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, list | tuple):
        return type(value)(_on_meta(item) for item in value)
    if isinstance(value, Mapping):
        return {key: _on_meta(item) for key, item in value.items()}
    return value
