"""What a run did otherwise than its spec says, and when it said so (contract §6)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from research_exchange.documents.effective_config import SETTINGS, effective, planned
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import as_list, as_mapping, is_text, is_whole, show
from research_exchange.documents.gates import Flag
from research_exchange.documents.json import DocumentError, JsonValue, canonical, parse
from research_exchange.documents.provenance import PROVENANCE, parse_provenance
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Spec

__all__ = ["FIELDS", "Deviation", "Deviations", "Recording", "Undeclared", "find_undeclared", "fold_deviations"]

FIELDS = ("model", "objective", "effective_batch", "steps", "dataset", "evaluator", "endpoint")
MAX_FLAGS = 50
"""Remarks on deviations; what is odd throughout needs no sentence for each oddity."""
MAX_UNDECLARED = 20
"""Changed settings that are named; a run that shows more has a plan of its own."""
CHANGES_HYPOTHESIS = frozenset({"objective", "endpoint"})
"""A run that changes one of these, however it spells them, tests another hypothesis, whatever it says (R-078)."""


class Recording(StrEnum):
    """When a deviation was first posted (R-076)."""

    RECORDED = "recorded"
    """In a running update, before any arm was completed."""
    LATE = "late"
    """In a running update, after an arm was completed."""
    UNRECORDED = "unrecorded"
    """In the final update."""


@dataclass(frozen=True)
class Deviation:
    """Identified by field, original and effective; once posted it stays (R-077)."""

    field: str
    original: str
    effective: str
    reason: str
    update: int
    recording: Recording
    withdrawn: bool
    """The latest list leaves it out."""


@dataclass(frozen=True)
class Deviations:
    items: tuple[Deviation, ...]
    hypothesis_tested: bool | None
    """Whether the run tested the hypothesis of its spec; None where what it says of that is neither true nor false."""
    tested_instead: str | None
    flags: tuple[Flag, ...]

    def states(self, names: Collection[str], value: float | str, *, in_time: bool = False) -> bool:
        """Whether a deviation under one of these fields names the value that was really used.

        With `in_time`, one that was first stated after an arm was completed does not count.
        """
        wanted = {name.lower() for name in names}
        return any(
            item.field.strip().lower() in wanted
            and _mentions(item.effective, value)
            and (item.recording is Recording.RECORDED or not in_time)
            for item in self.items
        )


@dataclass(frozen=True)
class Undeclared:
    """A setting that the run's own configuration shows changed, and that no deviation states (R-080)."""

    setting: str
    planned: tuple[int | float | str, ...]
    """What the spec allows."""
    effective: int | float | str
    source: str
    """The evidence file, or the part of an update, that shows it."""


def fold_deviations(state: RunState) -> Deviations:
    """All deviations a run ever posted. Never raises on what they contain."""
    folding = _Folding(state)
    for posted in state.posted.get("deviations", ()):
        folding.add(posted)
    items = folding.items()
    changed = any(word in deviation.field.lower() for deviation in items for word in CHANGES_HYPOTHESIS)
    said = [posted.value for posted in state.posted.get("original_hypothesis_tested", ())]
    instead = _latest_text(state.posted.get("tested_instead", ()))
    is_unclear = bool(said) and not isinstance(said[-1], bool)
    return Deviations(
        items=items,
        hypothesis_tested=False if changed or any(map(_denies, said)) else None if is_unclear else True,
        tested_instead=instead,
        flags=(
            *folding.flags,
            *_unstated(state),
            *_hypothesis_flags(said, changed=changed, instead=instead),
        ),
    )


def find_undeclared(
    spec: Spec, state: RunState, shelf: EvidenceShelf, deviations: Deviations
) -> tuple[Undeclared, ...]:
    """What the retained configurations and the feasibility report show changed without a word about it (R-080)."""
    found: dict[tuple[str, str], Undeclared] = {}
    for source, config in _configurations(spec, state, shelf):
        arm = config.get("arm")
        for setting in SETTINGS:
            used = effective(config, setting)
            allowed = planned(spec, setting, arm if isinstance(arm, str) else None)
            if used is None or not allowed or any(_equal(used, value) for value in allowed):
                continue
            if not deviations.states({setting.name, setting.deviation, *setting.words}, used):
                found.setdefault((setting.name, str(used)), Undeclared(setting.name, allowed, used, source))
    return tuple(found.values())[:MAX_UNDECLARED]


def _configurations(spec: Spec, state: RunState, shelf: EvidenceShelf) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    """Configurations that are JSON objects; one in another form is read by people."""
    for file in shelf.files:
        if file.kind == "effective_config":
            try:
                yield file.name, as_mapping(parse(shelf.read(file.name)))
            except (DocumentError, EvidenceLost):
                continue
    for posted in state.posted.get("feasibility", ()):
        source = f"feasibility.effective_config in update {posted.update}"
        yield source, as_mapping(as_mapping(posted.value).get("effective_config"))
    yield from _base_checkpoints(spec, state)
    if state.is_final:
        yield from _last_checkpoints(spec, state)


def _base_checkpoints(spec: Spec, state: RunState) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    """The models that arms say they start from, where a base checkpoint goes by the name of another one (R-094)."""
    posted, model = state.latest(PROVENANCE), spec.value.get("base_model")
    if posted is None or not is_text(model):
        return
    for entry in parse_provenance(posted.value).arms:
        base = entry.initialization.base_checkpoint or ""
        named = _MODEL.match(base)
        if named is not None and not _mentions(base, model):
            yield f"{entry.path}.initialization.base_checkpoint", {"arm": entry.arm, "base_model": named[0]}


_MODEL = re.compile(r"[\w.-]+/[\w.-]+")
"""A name as model hubs have them."""


def _last_checkpoints(spec: Spec, state: RunState) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    """How many steps the farthest checkpoint of each arm is from the start, once the run has ended."""
    known, last = frozenset(spec.arm_names), dict[str, tuple[int, str]]()
    for posted in state.posted.get("evidence", ()):
        for index, entry in enumerate(as_list(as_mapping(posted.value).get("checkpoints"))):
            arm, step = (as_mapping(entry).get(name) for name in ("arm", "step"))
            if isinstance(arm, str) and arm in known and is_whole(step) and step > last.get(arm, (0, ""))[0]:
                last[arm] = step, f"evidence.checkpoints[{index}] in update {posted.update}"
    for arm, (step, source) in last.items():
        yield source, {"arm": arm, "steps": step}


def _equal(used: float | str, value: float | str) -> bool:
    if isinstance(used, str) and isinstance(value, str):
        return used.strip().casefold() == value.strip().casefold()
    return used == value


def _mentions(text: str, value: float | str) -> bool:
    if isinstance(value, str):
        return value.strip().casefold() in text.casefold()
    return any(float(number.replace(",", "")) == value for number in _NUMBERS.findall(text))


def _denies(value: JsonValue) -> bool:
    """False, also where it was written as text."""
    return value is False or (isinstance(value, str) and value.strip().lower() == "false")


_NUMBERS = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


_OF_TRAINING = frozenset({"objective", "effective_batch", "steps", "dataset"})


class _Folding:
    def __init__(self, state: RunState) -> None:
        self._state = state
        self._found: dict[tuple[str, str, str], Deviation] = {}
        self._latest: set[tuple[str, str, str]] = set()
        self.flags: list[Flag] = []

    def add(self, posted: Posted) -> None:
        entries = as_list(posted.value)
        if not isinstance(posted.value, list):
            self._flag("R-075", posted.update, f"states deviations as {show(posted.value)}; they are a list.")
            if not as_mapping(posted.value):
                return
            entries = [posted.value]
        self._latest = set()
        for entry in entries:
            self._add_one(as_mapping(entry), posted.update)

    def items(self) -> tuple[Deviation, ...]:
        return tuple(
            deviation if identity in self._latest else replace(deviation, withdrawn=True)
            for identity, deviation in self._found.items()
        )

    def _add_one(self, entry: Mapping[str, JsonValue], update: int) -> None:
        parts = [entry.get(name) for name in ("field", "original", "effective", "reason")]
        field, original, effective, reason = (_as_text(part) for part in parts)
        identity = (field, original, effective)
        self._latest.add(identity)
        if identity in self._found:
            return
        if not all(is_text(part) for part in parts):
            self._flag("R-075", update, "has a deviation without field, original, effective or reason.")
        elif field not in FIELDS:
            self._flag("R-075", update, f"deviates in {show(field)}, which is none of {', '.join(FIELDS)}; it is kept.")
        elif original == effective:
            self._flag("R-075", update, f"deviates in {field} from {show(original)} to the same.")
        recording = self._recording(field, update)
        if recording is not Recording.RECORDED:
            self._flag("R-076", update, f"states a deviation in {show(field)} too late: {recording}.")
        self._found[identity] = Deviation(field, original, effective, reason, update, recording, withdrawn=False)

    def _recording(self, field: str, update: int) -> Recording:
        """Of all changes, those of the training alone leave the score of the base model as it was."""
        if update == self._state.final_update:
            return Recording.UNRECORDED
        state = self._state
        affected = state.completed_comparison if field.strip().lower() in _OF_TRAINING else state.completed_arms
        first_completed = min(affected.values(), default=None)
        return Recording.LATE if first_completed is not None and first_completed <= update else Recording.RECORDED

    def _flag(self, rule: str, update: int, text: str) -> None:
        if len(self.flags) < MAX_FLAGS:
            self.flags.append(Flag(rule, update, text))


def _unstated(state: RunState) -> list[Flag]:
    final = state.final_update
    if final is None or any(posted.update == final for posted in state.posted.get("deviations", ())):
        return []
    return [Flag("R-075", final, "is final and does not state deviations; [] says that there were none.")]


def _hypothesis_flags(said: Sequence[JsonValue], *, changed: bool, instead: str | None) -> list[Flag]:
    flags = []
    if changed and said and said[-1] is True:
        text = "The run says that it tested the original hypothesis, although its objective or endpoint changed."
        flags.append(Flag("R-078", None, text))
    if said and said[-1] is True and instead is not None:
        text = "The run says that it tested the original hypothesis, and in tested_instead that it tested another."
        flags.append(Flag("R-078", None, text))
    if any(map(_denies, said)) and instead is None:
        flags.append(Flag("R-078", None, "The run does not say in tested_instead what it tested."))
    if any(not isinstance(value, bool) for value in said):
        flags.append(Flag("R-078", None, "original_hypothesis_tested is true or false; anything else says nothing."))
    return flags


def _as_text(part: JsonValue) -> str:
    """What stands in the place of a text is read as what it says, all the same (R-078)."""
    return part if isinstance(part, str) else "" if part is None else canonical(part).decode()


def _latest_text(history: Sequence[Posted]) -> str | None:
    texts = [posted.value for posted in history if is_text(posted.value)]
    return texts[-1] if texts else None
