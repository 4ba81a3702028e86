"""What a run does now, by its spec and its declared deviations, beside what was timed (R-179)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from research_exchange.documents.fields import as_list, as_mapping, at_path, is_number, is_same, is_text, show
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec

__all__ = ["Plan"]

_REMEASURE = "Measure again with the configuration that runs, or declare the deviation."
_LONGEST_READ = 1000
"""Characters of what a deviation leads to."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})", re.ASCII)


class _Setting(NamedTuple):
    """One thing that decides how long a run takes."""

    path: str
    """In the spec, and in `effective_config`."""
    deviation: str | None
    """The field of a deviation that may change it."""


_SETTINGS = (
    _Setting("base_model", "model"),
    _Setting("max_seq_len", None),
    _Setting("batch_size", "effective_batch"),
    _Setting("steps", "steps"),
    _Setting("dataset.n_examples", "dataset"),
    _Setting("eval.n_examples", "evaluator"),
    _Setting("arms", None),
)


@dataclass(frozen=True)
class _Change:
    """The newest deviation in a field."""

    effective: str
    update: int
    """The first update that declared it."""

    @property
    def numbers(self) -> list[float]:
        return [float(number) for number in _NUMBER.findall(_THOUSANDS.sub("", self.effective))]

    def shows(self, value: JsonValue) -> bool:
        """Whether the deviation leads to this very value."""
        if is_number(value):
            return value in self.numbers
        return is_text(value) and value in self.effective

    def excludes(self, value: JsonValue) -> bool:
        """Whether it leads to another one; a text without a number says nothing about a number."""
        return bool(self.numbers if is_number(value) else value) and not self.shows(value)


class Plan:
    """The plan of a run against which one set of timings is read."""

    def __init__(self, spec: Spec, state: RunState | None, timed: Mapping[str, JsonValue], update: int) -> None:
        """
        Args:
            timed: The `effective_config` of the timings.
            update: The one that posted them; 0 for the spec's own.
        """
        self._spec = spec
        self._timed = timed
        self._update = update
        self._changes = _changes(state) if state is not None else {}

    def number(self, path: str) -> int | float | None:
        """A planned number, such as `steps`, after the declared deviations; None where there is none."""
        setting = next(setting for setting in _SETTINGS if setting.path == path)
        change, timed = self._changes.get(setting.deviation or ""), at_path(self._timed, path)
        planned = at_path(self._spec.value, path)
        if change is not None and len(set(change.numbers)) == 1:
            return change.numbers[0]
        if change is not None and is_number(timed) and change.shows(timed):
            return timed
        return planned if is_number(planned) else None

    def differences(self) -> list[Problem]:
        """Where the timings are of something else than what runs: one problem for each setting."""
        return [
            Problem("R-179", f"feasibility.effective_config.{setting.path}", expected, found, _REMEASURE)
            for setting in _SETTINGS
            if (expected := self._contradiction(setting)) is not None
            for found in (show(at_path(self._timed, setting.path)),)
        ]

    def _contradiction(self, setting: _Setting) -> str | None:
        """What should have been timed instead; None where the timings agree, or say nothing."""
        change, timed = self._changes.get(setting.deviation or ""), at_path(self._timed, setting.path)
        if change is None:
            planned = at_path(self._spec.value, setting.path)
            agrees = timed is None or planned is None or _is_planned(planned, timed)
            return None if agrees else f"{show(planned)}, as in the spec"
        if change.excludes(timed) or (change.update > self._update and not change.shows(timed)):
            return f"{show(change.effective)}, as update {change.update} declares"
        return None


def _is_planned(planned: JsonValue, timed: JsonValue) -> bool:
    """Arms may be given as the spec does, by name, or by their number."""
    if not isinstance(planned, Sequence) or isinstance(planned, str):
        return is_same(planned, timed)
    return timed == len(planned) if is_number(timed) else _names(planned) == _names(as_list(timed))


def _names(arms: Sequence[JsonValue]) -> list[str]:
    return sorted(str(as_mapping(arm).get("name", arm)) for arm in arms)


def _changes(state: RunState) -> dict[str, _Change]:
    """By field, what the newest deviation leads to; one that was left out later stays (R-077)."""
    first: dict[tuple[str, str], int] = {}
    newest: dict[str, _Change] = {}
    for posted in state.posted.get("deviations", ()):
        for entry in as_list(posted.value) or [posted.value]:
            field, effective = as_mapping(entry).get("field"), as_mapping(entry).get("effective")
            if isinstance(field, str) and isinstance(effective, str):
                name = field.strip().lower()
                update = first.setdefault((name, effective), posted.update)
                newest[name] = _Change(effective[:_LONGEST_READ], update)
    return newest
