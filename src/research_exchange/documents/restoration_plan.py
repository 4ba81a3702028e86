"""The spec's `restoration_preflight`: which arms start alike, and with which optimizer each (R-090, R-09A to R-09C)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from research_exchange.documents.correctness_plan import Tolerance, parse_tolerance
from research_exchange.documents.fields import as_list, as_mapping, is_text, show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import BASE_ARM, Spec

__all__ = ["Group", "PlannedArm", "RestorationPlan", "parse_restoration_plan"]

MAX_ARMS, MAX_KEYS = 100, 30
"""Of all groups together, and of one optimizer's configuration: far more than an experiment has."""

_SECTION = "restoration_preflight"
_REVISE = "Save a corrected version of the spec."


@dataclass(frozen=True)
class PlannedArm:
    """One arm of a group."""

    path: str
    """Where it stands in the spec."""
    name: str
    """The arm's own, where the plan calls it by its role."""
    optimizer: str
    """The family that was asked for."""
    config: Mapping[str, JsonValue]
    """What else was asked for; a null asks for nothing."""


@dataclass(frozen=True)
class Group:
    """Arms that share one initialization (R-095)."""

    path: str
    arms: tuple[PlannedArm, ...]
    is_resumed: bool
    """One arm by itself, which goes on from a checkpoint (R-09B)."""


@dataclass(frozen=True)
class RestorationPlan:
    """A parsed plan; what cannot be applied is left out and named in `problems`."""

    groups: tuple[Group, ...]
    output_required: bool
    """Every arm captures its output before the first update: `fixed_batch_required`, or `exact_replay`."""
    equivalence: Tolerance | None
    """How nearly a restored client has to repeat an update of the uninterrupted one (R-09E); None: not asked for."""
    problems: tuple[Problem, ...]

    @property
    def arms(self) -> tuple[PlannedArm, ...]:
        return tuple(arm for group in self.groups for arm in group.arms)


def parse_restoration_plan(spec: Spec) -> RestorationPlan:
    """Reads a spec's plan and resolves the names of its arms. Never raises."""
    return _Reader(spec).read(spec.section(_SECTION))


class _Reader:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._findings = Findings()
        self._seen: set[str] = set()

    def read(self, plan: Mapping[str, JsonValue]) -> RestorationPlan:
        entries = as_list(plan.get("groups"))[:MAX_ARMS]
        if not entries:
            self._refuse("R-090", f"{_SECTION}.groups", "at least one group of arms", show(plan.get("groups")))
        groups = [self._group(entry, f"{_SECTION}.groups[{index}]") for index, entry in enumerate(entries)]
        flags = [self._flag(plan, name) for name in ("fixed_batch_required", "exact_replay")]
        self._check_coverage()
        equivalence = self._equivalence(plan.get("restore_equivalence"))
        return RestorationPlan(tuple(groups), any(flags), equivalence, self._findings.problems)

    def _group(self, entry: JsonValue, path: str) -> Group:
        entries = as_list(as_mapping(entry).get("arms"))
        if not entries:
            self._refuse("R-090", f"{path}.arms", "at least one arm", show(as_mapping(entry).get("arms")))
        is_resumed = len(entries) == 1 and self._may_stand_alone(path)
        arms = [self._arm(as_mapping(arm), f"{path}.arms[{index}]") for index, arm in enumerate(entries[:MAX_ARMS])]
        return Group(path, tuple(arm for arm in arms if arm is not None), is_resumed)

    def _arm(self, entry: Mapping[str, JsonValue], path: str) -> PlannedArm | None:
        name = self._name(entry.get("name"), f"{path}.name")
        optimizer, config = entry.get("optimizer"), entry.get("optimizer_config")
        if not is_text(optimizer):
            self._refuse("R-090", f"{path}.optimizer", "an optimizer family", show(optimizer))
        if config is not None and not isinstance(config, Mapping):
            self._refuse("R-090", f"{path}.optimizer_config", "an object, or nothing", show(config))
        asked = {key: value for key, value in as_mapping(config).items() if value is not None}
        if len(asked) > MAX_KEYS:
            self._refuse("R-090", f"{path}.optimizer_config", f"at most {MAX_KEYS} keys", f"{len(asked)}")
            return None
        return PlannedArm(path, name, optimizer, asked) if name is not None and is_text(optimizer) else None

    def _name(self, name: JsonValue, path: str) -> str | None:
        """The one arm that a name or a role stands for, if it has no other group yet."""
        if not is_text(name):
            self._refuse("R-090", path, "the name of an arm", show(name))
            return None
        arms: Sequence[str] = self._spec.arms_called(name) if self._spec.arms else (name,)
        if len(arms) != 1:
            expected = f"an arm ({show_names(self._spec.arm_names)}) or the role of exactly one"
            self._refuse("R-036", path, expected, f"{show(name)}, which is {'neither' if not arms else 'several'}")
            return None
        (arm,) = arms
        if arm in self._seen or len(self._seen) == MAX_ARMS:
            self._refuse("R-090", path, f"an arm without a group yet, {MAX_ARMS} in all", show(name))
            return None
        self._seen.add(arm)
        if arm == BASE_ARM or any(each.name == arm and each.is_trained is False for each in self._spec.arms):
            self._refuse("R-09C", path, "an arm that is trained", f"{show(name)}, which is frozen")
            return None
        return arm

    def _may_stand_alone(self, path: str) -> bool:
        """A group of one is a training arm that is resumed, and nothing else (R-09B)."""
        restored, paired = (self._spec.features.get(name) for name in ("checkpoint_restore", "paired_training_arms"))
        if restored is True and paired is False:
            return True
        expected = "at least two arms, unless checkpoint_restore is true and paired_training_arms is false"
        self._refuse("R-09B", f"{path}.arms", expected, "one arm")
        return False

    def _check_coverage(self) -> None:
        """Arms that train as partners stand in a group; an arm of which the spec says no steps may be frozen."""
        if self._spec.features.get("paired_training_arms") is not True:
            return
        left_out = [arm.name for arm in self._spec.arms if arm.is_trained and arm.name not in self._seen]
        if left_out:
            self._refuse(
                "R-090", f"{_SECTION}.groups", "every arm that takes steps", f"{show_names(left_out)} left out"
            )

    def _flag(self, plan: Mapping[str, JsonValue], name: str) -> bool:
        value = plan.get(name)
        if value is not None and not isinstance(value, bool):
            self._refuse("R-090", f"{_SECTION}.{name}", "true or false", show(value))
        return value is not None and value is not False

    def _equivalence(self, value: JsonValue) -> Tolerance | None:
        if value is None:
            return None
        gaps: list[Problem] = []
        tolerance = parse_tolerance(value, f"{_SECTION}.restore_equivalence", gaps)
        self._findings.add_gaps(replace(problem, rule="R-09E") for problem in gaps)
        return None if gaps else tolerance

    def _refuse(self, rule: str, path: str, expected: str, found: str) -> None:
        self._findings.miss(rule, path, expected, found, _REVISE)
