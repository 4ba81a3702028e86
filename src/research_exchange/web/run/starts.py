"""How each arm started and with which optimizer: the provenance matrix of the restoration check (R-091 to R-099)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.provenance import PROVENANCE, ArmProvenance, OptimizerCheck, parse_provenance
from research_exchange.documents.restoration_plan import Group, PlannedArm, parse_restoration_plan
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec


@dataclass(frozen=True)
class Cell:
    """One value of one arm."""

    text: str | None
    """None where it is unknown (R-221)."""
    agrees: bool | None
    """With every other arm of the group that reports it; None where nothing can be compared."""


@dataclass(frozen=True)
class OptimizerCell:
    asked: str | None
    """None for an arm that is in no group."""
    asked_config: Mapping[str, JsonValue]
    checks: tuple[OptimizerCheck, ...]
    expected: int | None
    """How many checks there have to be: one for the creation and one for each restore; None where unknown."""


@dataclass(frozen=True)
class StartRow:
    arm: str
    cells: Mapping[str, Cell]
    """By the names of `_VALUES`."""
    restores: int | None
    optimizer: OptimizerCell
    evidence: tuple[str, ...]
    """Names of the files that show it."""
    problems: tuple[Problem, ...]
    """Of the entry by itself."""


@dataclass(frozen=True)
class StartGroup:
    """Arms that have to start alike."""

    name: str
    rows: tuple[StartRow, ...]


@dataclass(frozen=True)
class Starts:
    update: int | None
    """The newest report; None where there is none."""
    groups: tuple[StartGroup, ...]


_Reader = Callable[[ArmProvenance], str | None]
_VALUES: Mapping[str, _Reader] = {
    "base checkpoint": lambda entry: entry.initialization.base_checkpoint,
    "adapter hash": lambda entry: entry.initialization.adapter_sha256,
    "loaded checkpoint": lambda entry: entry.initialization.checkpoint_uri,
    "fixed batch": lambda entry: entry.output.batch_sha256,
    "first output": lambda entry: entry.output.output_sha256,
}


def starts(spec: Spec, state: RunState, *, required: bool) -> Starts | None:
    """None where the check is not required and the run reports nothing about it."""
    posted = state.latest(PROVENANCE)
    if posted is None and not required:
        return None
    entries = {} if posted is None else _by_arm(spec, parse_provenance(posted.value).arms)
    plan = parse_restoration_plan(spec)
    groups = [_planned_group(number, group, entries) for number, group in enumerate(plan.groups, start=1)]
    planned = {arm.name for arm in plan.arms}
    others = [_row(arm, None, entry, {}) for arm, entry in entries.items() if arm not in planned]
    if others:
        groups.append(StartGroup("In no group", tuple(others)))
    return Starts(None if posted is None else posted.update, tuple(group for group in groups if group.rows))


def _by_arm(spec: Spec, arms: Sequence[ArmProvenance]) -> dict[str, ArmProvenance]:
    """The first entry of each arm, whether it is called by name or by role."""
    found: dict[str, ArmProvenance] = {}
    for entry in arms:
        names = spec.arms_called(entry.arm)
        found.setdefault(names[0] if len(names) == 1 else entry.arm, entry)
    return found


def _planned_group(number: int, group: Group, entries: Mapping[str, ArmProvenance]) -> StartGroup:
    found = [entries[arm.name] for arm in group.arms if arm.name in entries]
    values = {name: [value for entry in found if (value := read(entry))] for name, read in _VALUES.items()}
    rows = tuple(_row(arm.name, arm, entries.get(arm.name), values) for arm in group.arms)
    return StartGroup(f"Group {number}", rows)


def _row(
    arm: str, planned: PlannedArm | None, entry: ArmProvenance | None, values: Mapping[str, Sequence[str]]
) -> StartRow:
    restores = None if entry is None else entry.restore_count
    return StartRow(
        arm=arm,
        cells={
            name: _cell(None if entry is None else read(entry), values.get(name, ())) for name, read in _VALUES.items()
        },
        restores=restores,
        optimizer=OptimizerCell(
            asked=None if planned is None else planned.optimizer,
            asked_config={} if planned is None else planned.config,
            checks=() if entry is None else entry.checks,
            expected=None if restores is None else restores + 1,
        ),
        evidence=() if entry is None else tuple(dict.fromkeys(_evidence(entry))),
        problems=() if entry is None else entry.findings.problems,
    )


def _cell(value: str | None, of_group: Sequence[str]) -> Cell:
    return Cell(value, None if value is None or len(of_group) < 2 else len(set(of_group)) == 1)


def _evidence(entry: ArmProvenance) -> Iterator[str]:
    names = (entry.initialization.evidence, entry.output.evidence, *(check.evidence for check in entry.checks))
    return (name for name in names if name is not None)
