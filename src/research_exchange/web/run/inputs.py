"""Where the exact input stands that a rule speaks of (R-221).

A rule names a place in a document's own words, such as `decision.observations[12].value`. A run has several documents
with such places: its updates, its spec and its files.
"""

import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec

_STEP = re.compile(r"""\[(\d+)\]|\[("(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*")\]|\.?([^.\[\]]+)""")
_PLAIN_KEY = re.compile(r"""[^.\[\]"\s]+""")
_OF_THE_FINAL_UPDATE = frozenset({"status", "verdict", "outcome_reason", "capacity_block", "summary"})
_REPORTS = {
    "activation_gate": "activation_calibration",
    "restoration_preflight": "initialization_provenance",
    "evaluation_comparability": "evaluation",
}
"""What a run reports for a gate, where that has another name than the gate."""
_PLANS = {"evaluation_comparability": "experiment_features", "decision": "decision_rule"}
"""What the spec says about a gate, where that has another name."""


def steps(path: str) -> list[str | int]:
    """The keys and places that lead to a value: `a.b[2]` is `["a", "b", 2]`. What is no path has no steps."""
    found: list[str | int] = []
    end = 0
    for step in _STEP.finditer(path):
        if step.start() != end:
            return []
        end = step.end()
        place, quoted, name = step.groups()
        found.append(int(place) if place is not None else name if quoted is None else json.loads(quoted))
    return found if end == len(path) else []


def anchor(steps: tuple[str | int, ...]) -> str:
    """The id of a value's line in a document that is shown line by line; no other value of the document has it."""
    return "at-" + "".join(map(_written, steps)).removeprefix(".")


def _written(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"


class Inputs:
    """The documents of a run at one moment, and addresses of places in them."""

    def __init__(self, run_id: str, spec: Spec, state: RunState, files: Mapping[str, str]) -> None:
        """
        Args:
            files: The names of the retained files, each with the address of its bytes.
        """
        self._run_id = run_id
        self._spec = spec
        self._state = state
        self._files = files

    def of_problem(self, problem: Problem) -> str | None:
        """The address of what a problem speaks of; None where it is in no document, such as a computed value."""
        return self.of_path(problem.path)

    def of_path(self, path: str) -> str | None:
        named = max((name for name in self._files if path.startswith(name)), key=len, default=None)
        if named is not None:
            return self._files[named]
        way = steps(path)
        if not way or not isinstance(way[0], str):
            return None
        in_update, in_spec = self._in_update(way), self._in_spec(way)
        if in_update is None or (in_spec is not None and in_spec[0] > in_update[0]):
            return None if in_spec is None else in_spec[1]
        return in_update[1]

    def of_update(self, number: int, part: str | None = None) -> str:
        """The page of an update, at one of its parts."""
        page = f"/runs/{self._run_id}/updates/{number}"
        return page if part is None else f"{page}#{quote(anchor((part,)))}"

    def of_gate(self, gate: str) -> Iterator[tuple[str, str]]:
        """What a gate is read from, as (name, address): the spec's section, and the newest report."""
        plan, part = _PLANS.get(gate, gate), _REPORTS.get(gate, gate)
        if plan in self._spec.value:
            yield "the spec", f"/runs/{self._run_id}/spec#{quote(anchor((plan,)))}"
        posted = self._state.latest(part)
        if posted is not None:
            yield f"update {posted.update}", self.of_update(posted.update, part)

    def _in_update(self, way: list[str | int]) -> tuple[int, str] | None:
        """How far a path leads into the newest update with its part, and where that stands."""
        part = str(way[0])
        posted = self._state.latest(part)
        if posted is not None:
            reached = _reach(posted.value, way[1:])
            place = quote(anchor((part, *way[1 : 1 + reached])))
            return 1 + reached, f"{self.of_update(posted.update)}#{place}"
        if part in _OF_THE_FINAL_UPDATE and self._state.final_update is not None:
            return 1, self.of_update(self._state.final_update, part)
        if part == "metrics":
            newest = self._metric(way[1:])
            return None if newest is None else (1, self.of_update(newest, part))
        return None

    def _metric(self, way: list[str | int]) -> int | None:
        """The update that posted a metric's newest value."""
        names = list(map(str, way))
        of_arm = names[:1] == ["arms"] and len(names) == 3
        metrics = self._state.arms.get(names[1], {}) if of_arm else self._state.metrics
        history = metrics.get(names[-1]) if names else None
        return None if history is None else history.latest.update

    def _in_spec(self, way: list[str | int]) -> tuple[int, str] | None:
        reached = _reach(self._spec.value, way)
        return (reached, f"/runs/{self._run_id}/spec#{quote(anchor(tuple(way[:reached])))}") if reached else None


def _reach(value: JsonValue, way: list[str | int]) -> int:
    """How many steps of a path there are in a value."""
    for reached, step in enumerate(way):
        if isinstance(step, int):
            entries = as_list(value)
            if step >= len(entries):
                return reached
            value = entries[step]
        else:
            fields = as_mapping(value)
            if step not in fields:
                return reached
            value = fields[step]
    return len(way)
