"""Hostile uploads: a graph that asks for what is not allowed, or for too much, gives a sentence."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from spindle.backends import graphs
from spindle.backends.contract import CustomLoss, Datum, ForwardBackward, UserError
from spindle.backends.graphs import interpreter
from spindle.backends.graphs.operations import FUNCTIONS, METHODS
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import TinyModel


def _graph(*nodes: dict[str, Any], metrics: Mapping[str, Any] | None = None, loss: Any = None) -> dict[str, Any]:
    """A graph of the placeholders logprobs and w, some calls, and the last of these as the loss."""
    filled = [
        {"op": "call_function", "name": f"n{i}", "args": [], "kwargs": {}, **node} for i, node in enumerate(nodes)
    ]
    inputs: list[dict[str, Any]] = [
        {"op": "placeholder", "name": name, "target": name, "args": [], "kwargs": {}} for name in ("logprobs", "w")
    ]
    last = {"ref": f"n{len(nodes) - 1}"} if loss is None else loss
    result = {"tuple": [last, {"dict": dict(metrics or {})}]}
    output = {"op": "output", "name": "output", "target": "output", "args": [result], "kwargs": {}}
    return {"format": 1, "nodes": [*inputs, *filled, output]}


def _custom(graph: Any, inputs: Mapping[str, int] | None = None) -> CustomLoss:
    return CustomLoss("s:loss:0", "mine", inputs or {"logprobs": 1, "w": 1}, graph)


def _evaluate(custom: CustomLoss, n: int = 6) -> tuple[Tensor, dict[str, float]]:
    loss = graphs.as_loss(custom)
    logprobs = torch.linspace(-3, -1, n).requires_grad_()
    return loss.datum(logprobs, {"w": torch.linspace(0, 1, n)}, {})


L, W = {"ref": "logprobs"}, {"ref": "w"}
HUGE = 1 << 40


def _then_sum(*nodes: dict[str, Any]) -> dict[str, Any]:
    return _graph(*nodes, {"op": "call_method", "target": "sum", "args": [{"ref": f"n{len(nodes) - 1}"}]})


def _call(target: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"target": target, "args": list(args), "kwargs": kwargs}


def _method(target: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"op": "call_method", **_call(target, *args, **kwargs)}


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (None, "must have the format 1"),
        ({"format": 2, "nodes": []}, "must have the format 1"),
        ({"format": 1, "nodes": []}, "must have 2 to 1000 nodes, found 0"),
        ({"format": 1, "nodes": [{}] * 5000}, "must have 2 to 1000 nodes, found 5000"),
        ({"format": 1, "nodes": [3, 4]}, "node 0 must be an object"),
        ({"format": 1, "nodes": [{"op": "placeholder"}, {}]}, "node 0 must have an op, a name and a target"),
        (_graph(_call("os.system", "ls")), r"node 2 calls the function 'os\.system', which is not allowed"),
        (_graph(_call("torch.load", "/etc/passwd")), "the function 'torch.load', which is not allowed"),
        (_graph(_call("torch.empty", 4)), "the function 'torch.empty', which is not allowed"),
        (_graph(_method("__class__", L)), "the Tensor method '__class__', which is not allowed"),
        (_graph(_method("backward", L)), "the Tensor method 'backward', which is not allowed"),
        (_graph(_method("add_", L, 1)), "the Tensor method 'add_', which is not allowed"),
        (_graph({"op": "get_attr", "target": "weight"}), "is a 'get_attr'; a loss calls functions and methods"),
        (_graph({"op": "call_module", "target": "net"}), "is a 'call_module'; a loss calls functions"),
        (_graph(_call("torch.exp", {"ref": "later"})), "refers to 'later', which is no earlier node"),
        (_graph(_call("torch.exp", {"ref": "n0"})), "refers to 'n0', which is no earlier node"),
        (_graph(_call("torch.exp", {"ref": "w", "x": 1})), "an object with 2 keys"),
        (_graph(_call("torch.exp", {"code": "1"})), "has {'code': '1'}, which stands for nothing here"),
        (_graph(_call("torch.exp", {"dtype": "object"})), "which stands for nothing here"),
        (_graph(_call("torch.exp", {"device": "cuda"})), "which stands for nothing here"),
        (_graph(_call("torch.exp", 1 << 70)), "whole number of more than 64 bits"),
        (_graph(_call("torch.exp", [0] * 600)), "more than 512 values"),
        (_graph(_call("torch.exp", [[[[[[[[[[[1]]]]]]]]]]])), "lists deeper than 8"),
        (_graph(_call("torch.exp", L) | {"name": "w"}), "is called 'w', as is an earlier one"),
        (_graph(_call("torch.exp", L) | {"args": "all"}), "a list of args and an object of kwargs"),
        (_graph(_call("torch.sum", L), loss=3), "output must be a tuple of the loss and a dict of metrics"),
        (
            _graph(_call("torch.sum", L), metrics={"loss:sum": {"ref": "n0"}}),
            "'loss:sum' must be computed by a node and",
        ),
        (_graph(_call("torch.sum", L), metrics={"custom/a:sum": 3}), "'custom/a:sum' must be computed by a node"),
    ],
)
def test_a_graph_that_is_not_allowed(graph: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        graphs.parse(_custom(graph))
    assert str(caught.value).startswith("custom loss mine: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"w": 1}, "1 to 16 inputs, logprobs first, found w"),
        ({"logprobs": 0}, "logprobs must have 1 or 2 dimensions"),
        ({"logprobs": 1, "w": 3}, "the input w must have 0 to 2 dimensions"),
        ({"logprobs": 1, "W": 1}, "'W' must be a name of lower-case letters"),
        ({"logprobs": 1, **{f"x{i}": 1 for i in range(16)}}, "1 to 16 inputs"),
        ({"logprobs": 1}, r"is the placeholder of 'w', expected no more"),
        ({"logprobs": 1, "v": 1}, r"is the placeholder of 'w', expected \['v'\]"),
        ({"logprobs": 1, "w": 1, "v": 1}, "no placeholder for the input 'v'"),
    ],
)
def test_inputs_that_are_not_allowed(inputs: dict[str, int], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        graphs.parse(_custom(_graph(_call("torch.sum", L)), inputs))


BOMBS = {
    "repeat": _then_sum(_method("repeat", L, HUGE)),
    "repeat twice": _then_sum(_method("repeat", L, 1 << 18), _method("repeat", {"ref": "n0"}, 1 << 18)),
    "tile": _then_sum(_call("torch.tile", L, {"tuple": [HUGE]})),
    "repeat_interleave": _then_sum(_call("torch.repeat_interleave", L, HUGE)),
    "expand": _then_sum(_method("expand", L, HUGE, 6)),
    "zeros": _then_sum(_call("torch.zeros", HUGE)),
    "zeros on a device": _then_sum(_call("torch.zeros", HUGE, device={"device": "cpu"})),
    "zeros beyond 64 bits": _then_sum(_call("torch.zeros", HUGE, HUGE)),
    "new_full": _then_sum(_method("new_full", L, {"tuple": [HUGE]}, 1.0)),
    "arange": _then_sum(_call("torch.arange", HUGE)),
    "linspace": _then_sum(_call("torch.linspace", 0, 1, HUGE)),
    "eye": _then_sum(_call("torch.eye", 1 << 20)),
    "outer": _then_sum(_method("repeat", L, 1 << 18), _call("torch.outer", {"ref": "n0"}, {"ref": "n0"})),
    "broadcast": _then_sum(
        _method("repeat", L, 1 << 18),
        _method("unsqueeze", {"ref": "n0"}, 1),
        _call("operator.mul", {"ref": "n0"}, {"ref": "n1"}),
    ),
    "broadcast within a loss": _graph(
        _method("repeat", L, 1 << 18),
        _method("unsqueeze", {"ref": "n0"}, 1),
        _call("torch.nn.functional.l1_loss", {"ref": "n0"}, {"ref": "n1"}),
    ),
    "batched product": _then_sum(
        _method("expand", L, 800, 800, 6),
        _method("unsqueeze", {"ref": "n0"}, 1),
        _call("torch.matmul", {"ref": "n0"}, {"ref": "n1"}),
    ),
    "diag": _then_sum(_method("repeat", L, 1 << 18), _call("torch.diag", {"ref": "n0"})),
    "index": _then_sum(
        _method("expand", L, 1000, 6),
        _method("new_zeros", L, 1 << 20, dtype={"dtype": "int64"}),
        _call("operator.getitem", {"ref": "n0"}, {"ref": "n1"}),
    ),
    "stack": _then_sum(_method("repeat", L, 1 << 18), _call("torch.stack", [{"ref": "n0"}] * 500)),
    "pieces": _graph(_method("repeat", L, 1 << 18), _method("split", {"ref": "n0"}, 1), loss=L),
    "unbind": _graph(_method("repeat", L, 1 << 18), _method("unbind", {"ref": "n0"}), loss=L),
    "where alone": _graph(_method("repeat", L, 1 << 18), _call("torch.where", {"ref": "n0"}), loss=L),
    "power": _graph(_call("operator.pow", 10, 1_000_000_000)),
    "power of powers": _graph(_call("operator.pow", 10, 15), _call("operator.pow", {"ref": "n0"}, {"ref": "n0"})),
    "product of numbers": _graph(_call("operator.mul", 1 << 62, 4)),
    "text": _graph(_call("operator.mul", "a", HUGE)),
    "list": _graph(_call("operator.mul", [0], HUGE)),
    "memory": _then_sum(*[_method("repeat", L, 1 << 19)] * 900),
    "time": _then_sum(
        _method("repeat", L, 1 << 19), *[_call("torch.sort", {"ref": "n0"}) for _ in range(9)], _method("abs", L)
    ),
}


LIMITS = "|".join(
    [
        r"would make \d+ numbers; at most 4194304 are allowed",
        r"would cut a tensor into \d+ pieces; at most 1024 are allowed",
        r"needs more than 33554432 numbers for one datum",
        r"products are of tensors of one or two dimensions",
        r"whole number of more than 64 bits",
        r"takes tensors and numbers",
        r"takes a condition and two values",
        r"the argument 'a' is not allowed",
        r"Storage size calculation overflowed .*",
    ]
)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_user_error(name: str) -> None:
    start = time.process_time()
    with pytest.raises(UserError, match=rf"^custom loss 'mine' .*({LIMITS})\.$"):
        _evaluate(_custom(BOMBS[name]))
    assert time.process_time() - start < 10


def test_a_loss_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "SECONDS", 0.05)
    slow = _then_sum(_method("repeat", L, 1 << 15), *[_call("torch.sort", {"ref": "n0"})] * 60, _method("abs", L))
    start = time.process_time()
    with pytest.raises(UserError, match=r"takes longer than 0.05 seconds for one request"):
        _evaluate(_custom(slow))
    assert time.process_time() - start < 5


def test_the_clock_runs_over_all_data_of_a_request_and_only_within_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "SECONDS", 0.5)
    loss = graphs.as_loss(
        _custom(
            _then_sum(_method("repeat", L, 1 << 17), _call("torch.sort", {"ref": "n0"}, 0), _method("repeat", L, 2))
        )
    )
    inputs: tuple[Tensor, dict[str, Tensor], dict[str, float]] = (torch.zeros(6), {"w": torch.zeros(6)}, {})
    loss.datum(*inputs)
    time.sleep(0.6)
    loss.datum(*inputs)
    with pytest.raises(UserError, match="takes longer than"):
        for _ in range(1000):
            loss.datum(*inputs)


def test_the_clock_runs_while_the_derivative_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    picks = [_call("operator.getitem", {"ref": "n0"}, i) for i in range(400)]
    picked = [{"ref": f"n{i + 1}"} for i in range(400)]
    loss = graphs.as_loss(_custom(_then_sum(_method("repeat", L, 1 << 17), *picks, _call("torch.stack", picked))))
    logprobs = torch.zeros(6, requires_grad=True)
    loss.datum(logprobs, {"w": torch.zeros(6)}, {})  # torch imports what works out sizes
    monkeypatch.setattr(interpreter, "SECONDS", 1.5)
    spent = 0.0
    with pytest.raises(UserError, match=r"takes longer than 1\.5 seconds for one request"):
        while spent < 5:
            value, _ = loss.datum(logprobs, {"w": torch.zeros(6)}, {})
            begun = time.process_time()
            torch.autograd.grad(value, logprobs)
            spent += time.process_time() - begun


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (
            _graph(
                _method("to", L, {"dtype": "int64"}),
                _call("torch.full_like", {"ref": "n0"}, -(1 << 63)),
                _call("torch.div", {"ref": "n1"}, -1, rounding_mode="trunc"),
            ),
            "cuts whole numbers towards zero; round them to the floor, or divide floating point",
        ),
        (_graph(_call("torch.exp", L)), r"must return a scalar tensor of floating point, found \[6\]"),
        (_graph(_method("numel", L)), "must return a scalar tensor of floating point, found int"),
        (_graph(_method("argmax", L)), "must return a scalar tensor of floating point"),
        (
            _graph(_call("torch.sum", L), metrics={"custom/a:sum": L}),
            "must return one number as the metric 'custom/a:s",
        ),
        (_graph(_call("torch.sum", L, out=W)), "torch.sum in node 'n0' failed: the argument out is not allowed"),
        (_graph(_call("torch.norm", L, "nuc")), "the argument 'nuc' is not allowed"),
        (_graph(_method("to", L, "cuda")), "the argument 'cuda' is not allowed"),
        (_graph(_call("getattr", L, "__class__")), "the attribute '__class__' is not allowed; a tensor has shape"),
        (_graph(_call("getattr", L, "grad_fn")), "the attribute 'grad_fn' is not allowed"),
        (_graph(_call("getattr", {"tuple": [1]}, "count")), "the attribute 'count' is not allowed"),
        (_graph(_call("operator.getitem", {"dict": {"a": 1}}, "a")), "the argument 'a' is not allowed"),
        (
            _graph(_call("torch.reshape", L, {"tuple": [4, 4]})),
            r"torch.reshape in node 'n0' failed: shape '\[4, 4\]' is in",
        ),
        (_graph(_call("operator.truediv", 1, 0)), "division by zero"),
        (_graph(_call("math.log", L)), "math.log in node 'n0' failed"),
        (_graph(_call("torch.exp")), "torch.exp in node 'n0' failed"),
    ],
)
def test_a_graph_that_fails_on_a_datum(graph: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        _evaluate(_custom(graph))


def test_inputs_of_the_datum_are_not_written_to(llama: TinyModel) -> None:
    """A function may be asked to work in place; what it gets is a copy."""
    graph = _graph(
        _call("torch.nn.functional.relu", W, inplace=True),
        _method("detach", L),
        _call("torch.nn.functional.relu", {"ref": "n1"}, True),
        _call("operator.mul", L, {"ref": "n0"}),
        _method("sum", {"ref": "n3"}),
    )
    backend = llama.backend()
    tiny.create(backend, llama)
    weights = np.linspace(-1, 1, 6).astype(np.float32)
    datum = Datum(tiny.tokens(6), {"target_tokens": tiny.tokens(6, 1), "w": weights.copy()})
    result = tiny.train(backend, ForwardBackward("m", [datum], "custom", custom=_custom(graph)))
    np.testing.assert_array_equal(datum.loss_inputs["w"], weights)
    assert (result.outputs[0]["logprobs"] < 0).all()


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({}, r"data\[0\].loss_fn_inputs lacks w, which custom needs"),
        ({"w": np.ones((6, 2), np.float32)}, r"data\[0\].*\.w must have 1 dimensions, found the shape \[6, 2\]"),
        ({"w": np.full(6, np.nan, np.float32)}, r"data\[0\].*\.w\[0\] is nan"),
        ({"w": np.ones(6), "target_tokens": np.ones((6, 2), np.int64)}, r"target_tokens must have the shape \[6\]"),
    ],
)
def test_data_that_do_not_fit_the_graph(llama: TinyModel, inputs: dict[str, Any], sentence: str) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    datum = Datum(tiny.tokens(6), {"target_tokens": tiny.tokens(6, 1), **inputs})
    with pytest.raises(UserError, match=sentence):
        tiny.train(backend, ForwardBackward("m", [datum], "custom", custom=_custom(_graph(_call("torch.sum", L)))))


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.integers(-(1 << 66), 1 << 66), st.floats(), st.text(max_size=4)
)
_SPECIAL = st.sampled_from(
    [
        *({"ref": name} for name in ("logprobs", "w", "n0", "n1", "n2")),
        {"float": "inf"},
        {"dtype": "int64"},
        {"dtype": "float64"},
        {"device": "cpu"},
        {"ellipsis": True},
        {"slice": [None, {"ref": "n0"}, 2]},
        {"layout": "strided"},
        {"memory_format": "contiguous_format"},
        HUGE,
        1 << 20,
    ]
)
_ARGUMENTS = st.recursive(
    _SPECIAL | _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(lambda items: {"tuple": items}, st.lists(inner, max_size=3))
        | st.builds(lambda items: {"dict": items}, st.dictionaries(st.text(max_size=3), inner, max_size=2))
    ),
    max_leaves=5,
)
_CALLS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["call_function", "call_method"]),
        "target": st.sampled_from([*FUNCTIONS, *METHODS]),
        "args": st.lists(_SPECIAL | _ARGUMENTS, max_size=3),
        "kwargs": st.dictionaries(
            st.sampled_from(["dim", "dtype", "n", "out", "keepdim", "device", "size", "other"]), _ARGUMENTS, max_size=1
        ),
    }
)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["format", "nodes", "op", "name", "target", "args", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_CALLS, min_size=1, max_size=4))
def test_any_calls_give_numbers_or_a_user_error(calls: list[dict[str, Any]]) -> None:
    start = time.process_time()
    for call in calls:
        if call["target"] not in (FUNCTIONS if call["op"] == "call_function" else METHODS):
            call["op"] = "call_method" if call["op"] == "call_function" else "call_function"
    try:
        loss, metrics = _evaluate(_custom(_graph(*calls)))
        assert loss.ndim == 0
        assert metrics == {}
    except UserError as error:
        assert "\n" not in str(error)
    assert time.process_time() - start < 10


@settings(max_examples=150, deadline=None)
@given(_ANYTHING | st.builds(lambda nodes: {"format": 1, "nodes": nodes}, st.lists(_ANYTHING, max_size=5)))
def test_any_json_is_a_graph_or_a_user_error(graph: Any) -> None:
    with pytest.raises(UserError):
        graphs.parse(_custom(graph))
