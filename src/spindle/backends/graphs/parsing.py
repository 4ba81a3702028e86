"""An uploaded graph as nodes in order: every name known, every reference to an earlier node, the output well formed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spindle.backends.contract import CustomLoss, UserError
from spindle.backends.graphs.arguments import EncodingError, Ref, decode, references
from spindle.backends.graphs.operations import FUNCTIONS, METHODS, Operation

MOST_NODES = 1000
MOST_INPUTS = 16

_INPUT_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_METRIC = re.compile(r"custom/[a-z0-9_./-]{1,64}:(sum|mean)")
_LOGPROBS = "logprobs"


@dataclass(frozen=True)
class Node:
    """One call."""

    name: str
    target: str
    operation: Operation
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Graph:
    """A checked graph."""

    inputs: Mapping[str, int]
    """Ranks of the inputs by name, `logprobs` first."""
    placeholders: Mapping[str, str]
    """Node names of the inputs, by input name."""
    nodes: tuple[Node, ...]
    """In the order of execution."""
    loss: Ref
    metrics: Mapping[str, Ref]


def parse(custom: CustomLoss) -> Graph:
    """Read an uploaded loss. Raises `UserError` for one that is not allowed; takes time in proportion to its size."""
    try:
        return _Parser(custom).graph()
    except (EncodingError, _Malformed) as error:
        name = custom.name if isinstance(custom.name, str) and len(custom.name) <= 64 else "of this graph"
        raise UserError(f"custom loss {name}: {error}.") from None


class _Malformed(Exception):
    """What is wrong with a graph, without the full stop."""


class _Parser:
    def __init__(self, custom: CustomLoss) -> None:
        self._custom = custom
        self._known: set[str] = set()
        self._placeholders: dict[str, str] = {}
        self._nodes: list[Node] = []

    def graph(self) -> Graph:
        _check_inputs(self._custom.inputs)
        nodes = self._raw_nodes()
        for index, raw in enumerate(nodes[:-1]):
            self._read(raw, f"node {index}")
        missing = list(self._custom.inputs)[len(self._placeholders) :]
        if missing:
            raise _Malformed(f"its graph has no placeholder for the input {missing[0]!r}")
        loss, metrics = self._output(nodes[-1])
        return Graph(dict(self._custom.inputs), self._placeholders, tuple(self._nodes), loss, metrics)

    def _raw_nodes(self) -> list[Any]:
        graph = self._custom.graph
        if not isinstance(graph, Mapping) or graph.get("format") != 1:
            raise _Malformed("the graph must have the format 1; use a Tinker SDK that sends it")
        nodes = graph.get("nodes")
        if not isinstance(nodes, list) or not 2 <= len(nodes) <= MOST_NODES:
            count = len(nodes) if isinstance(nodes, list) else "none"
            raise _Malformed(f"the graph must have 2 to {MOST_NODES} nodes, found {count}")
        return nodes

    def _read(self, raw: Any, where: str) -> None:
        op, name, target = _strings(raw, where)
        if name in self._known:
            raise _Malformed(f"{where} is called {name!r}, as is an earlier one; node names are unique")
        if op == "placeholder":
            expected = list(self._custom.inputs)[len(self._placeholders) :]
            if not expected or target != expected[0]:
                raise _Malformed(f"{where} is the placeholder of {target!r}, expected {expected[:1] or 'no more'}")
            self._placeholders[target] = name
        else:
            self._nodes.append(self._call(op, name, target, raw, where))
        self._known.add(name)

    def _call(self, op: str, name: str, target: str, raw: Mapping[str, Any], where: str) -> Node:
        table = {"call_function": FUNCTIONS, "call_method": METHODS}.get(op)
        if table is None:
            raise _Malformed(f"{where} is a {op!r}; a loss calls functions and methods on its inputs alone")
        operation = table.get(target)
        if operation is None:
            kind = "function" if table is FUNCTIONS else "Tensor method"
            raise _Malformed(
                f"{where} calls the {kind} {target!r}, which is not allowed in uploaded losses; use another, or run "
                "the loss with forward_backward_custom and a plain function"
            )
        args, kwargs = raw.get("args", []), raw.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise _Malformed(f"{where} must have a list of args and an object of kwargs")
        decoded, named = self._decode({"tuple": args}, where), self._decode({"dict": kwargs}, where)
        return Node(name, target, operation, decoded, named)

    def _decode(self, value: Any, where: str) -> Any:
        try:
            decoded = decode(value)
        except EncodingError as error:
            raise _Malformed(f"{where} {error}") from None
        unknown = [name for name in references(decoded) if name not in self._known]
        if unknown:
            raise _Malformed(f"{where} refers to {unknown[0]!r}, which is no earlier node")
        return decoded

    def _output(self, raw: Any) -> tuple[Ref, dict[str, Ref]]:
        op, _, _ = _strings(raw, "the last node")
        args = raw.get("args")
        if op != "output" or not isinstance(args, list) or len(args) != 1:
            raise _Malformed("the last node must be the output, with one argument")
        match self._decode(args[0], "the output"):
            case (Ref() as loss, dict() as metrics) | [Ref() as loss, dict() as metrics]:
                pass
            case _:
                raise _Malformed("the output must be a tuple of the loss and a dict of metrics, both computed by nodes")
        for key, value in metrics.items():
            if not _METRIC.fullmatch(key) or not isinstance(value, Ref):
                raise _Malformed(
                    f"the metric {key[:80]!r} must be computed by a node and be called custom/NAME:sum or "
                    "custom/NAME:mean in lower case"
                )
        return loss, metrics


def _strings(raw: Any, where: str) -> tuple[str, str, str]:
    if not isinstance(raw, Mapping):
        raise _Malformed(f"{where} must be an object")
    op, name, target = (raw.get(key) for key in ("op", "name", "target"))
    if isinstance(op, str) and isinstance(name, str) and isinstance(target, str) and len(op + name + target) <= 256:
        return op, name, target
    raise _Malformed(f"{where} must have an op, a name and a target, together at most 256 characters")


def _check_inputs(inputs: Mapping[str, int]) -> None:
    names = list(inputs)
    if not 1 <= len(names) <= MOST_INPUTS or names[0] != _LOGPROBS:
        raise _Malformed(
            f"it must have 1 to {MOST_INPUTS} inputs, logprobs first, found {', '.join(names[:20]) or 'none'}"
        )
    for name, rank in inputs.items():
        if not _INPUT_NAME.fullmatch(name):
            raise _Malformed(f"the input {name[:80]!r} must be a name of lower-case letters, digits and underscores")
        if rank not in ((1, 2) if name == _LOGPROBS else (0, 1, 2)):
            raise _Malformed(f"the input {name} must have {'1 or 2' if name == _LOGPROBS else '0 to 2'} dimensions")
