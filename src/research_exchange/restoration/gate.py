"""Reads the reports of a run, arm by arm, and holds the latest against the plan and against the earlier ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.fields import is_same, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Flag, GateStatus, Problem, Provenance, Reading
from research_exchange.documents.json import JsonValue, canonical
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.provenance import PROVENANCE, ArmProvenance, parse_provenance
from research_exchange.documents.restoration_plan import Group, RestorationPlan, parse_restoration_plan
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Spec
from research_exchange.restoration.equivalence import check_equivalence
from research_exchange.restoration.optimizers import check_optimizer
from research_exchange.restoration.proofs import ProofFiles
from research_exchange.restoration.start import compare_outputs, compare_starts, shared_values

__all__ = ["plan_problems", "read_restoration"]


def plan_problems(spec: Spec) -> tuple[Problem, ...]:
    """What keeps the spec's own `restoration_preflight` from being applied (R-090, R-036, R-09B, R-09C)."""
    return parse_restoration_plan(spec).problems


def read_restoration(spec: Spec, state: RunState, shelf: EvidenceShelf) -> Reading:
    """Judges the latest report; it counts where one that holds came while there was still something to train."""
    check = _Check(spec, shelf)
    history = _changes(state.posted.get(PROVENANCE, ()))
    if not history:
        return _nothing_reported(check.plan, state)
    *earlier, latest = map(check.read, history)
    findings = Findings()
    findings.add(latest.findings)
    _compare_with_earlier(latest, earlier, state, findings)
    holding = [result for result in (*earlier, latest) if result.findings.status is GateStatus.PASSED]
    first = min(holding, key=lambda result: result.shown_after, default=None)
    if findings.status is GateStatus.PASSED and first is not None and _is_too_late(first, check.plan, state):
        expected = "checks that hold, posted before the last of these arms was completed"
        is_files = first.files_after >= first.update
        by = f"files from after update {first.files_after}" if is_files else f"update {first.update}"
        found = f"the first that hold too late, by {by}"
        action = "Publish the provenance while the run goes on; training waits for it."
        findings.miss("R-091", PROVENANCE, expected, found, action)
    return Reading(
        status=findings.status,
        reason=_reason(findings.status, check.plan, earlier),
        problems=findings.problems,
        computed=latest.shared,
        provenance=latest.sources,
        flags=(*_early_flags(check.plan, state, first), *latest.flags),
    )


def _nothing_reported(plan: RestorationPlan, state: RunState) -> Reading:
    action = "Report the initialization and the optimizer of each arm before any of them trains."
    problem = Problem("R-091", PROVENANCE, "an entry for each arm of the groups", "nothing", action)
    reason = "No provenance of the arms' initialization was reported."
    problems = (*plan.problems, problem)
    return Reading(GateStatus.UNVERIFIED, reason, problems, flags=_early_flags(plan, state, None))


def _changes(history: Sequence[Posted]) -> list[Posted]:
    """The reports without those that repeat the one before."""
    texts = [b"", *(canonical(posted.value) for posted in history)]
    return [posted for posted, before, text in zip(history, texts, texts[1:], strict=False) if text != before]


@dataclass(frozen=True)
class _Result:
    """What one report shows."""

    update: int
    entries: Mapping[str, Sequence[ArmProvenance]]
    """By arm; more than one where the report names it twice."""
    findings: Findings
    shared: Mapping[str, JsonValue]
    """What all arms of a group have in common."""
    sources: Mapping[str, Provenance]
    flags: tuple[Flag, ...]
    files_after: int
    """The update after which the last file behind it was retained; 0 where all came before the first."""
    files_update: int
    """The newest update that carried one of them; 0 where all were uploaded by themselves."""

    @property
    def shown_after(self) -> int:
        """The newest update that was there before both the report and its files were."""
        return max(self.update - 1, self.files_after)


class _Check:
    """Reads reports against one spec and one shelf."""

    def __init__(self, spec: Spec, shelf: EvidenceShelf) -> None:
        self.plan = parse_restoration_plan(spec)
        self._spec = spec
        self._files = ProofFiles(shelf)

    def read(self, posted: Posted) -> _Result:
        report, findings = parse_provenance(posted.value), Findings()
        findings.add_gaps(self.plan.problems)
        findings.add(report.findings)
        entries = _by_arm(self._spec, report.arms)
        shared: dict[str, JsonValue] = {}
        sources: dict[str, Provenance] = {}
        for group in self.plan.groups:
            found = [entry for arm in group.arms for entry in entries.get(arm.name, ())]
            self._check_arms(group, entries, findings)
            compare_starts(group.path, found, findings)
            compare_outputs(found, findings)
            for value in shared_values(found):
                key = f"{group.path.removeprefix('restoration_preflight.')}.{value.name}"
                shared[key] = value.text
                sources[key] = self._files.source_of(value.text, value.evidence)
        planned = frozenset(arm.name for arm in self.plan.arms)
        flags = _entry_flags(posted.update, entries, planned)[:MAX_PROBLEMS]
        names = [name for arm in self.plan.arms for name in _evidence(entries.get(arm.name, ()))]
        came = self._files.last_after(names), self._files.last_update(names)
        return _Result(posted.update, entries, findings, shared, sources, tuple(flags), *came)

    def _check_arms(self, group: Group, entries: Mapping[str, Sequence[ArmProvenance]], findings: Findings) -> None:
        for arm in group.arms:
            found = entries.get(arm.name, ())
            if len(found) != 1:
                expected, what = f"one entry for {show(arm.name)}", "none" if not found else f"{len(found)}"
                findings.miss("R-091", f"{PROVENANCE}.arms", expected, what, "Report each arm of the groups once.")
            for entry in found:
                findings.add(entry.findings)
                self._check_proofs(entry, findings)
                for check in entry.checks:
                    check_optimizer(check, arm, self._files, findings)
                if self.plan.output_required and not entry.output.available:
                    path, action = f"{entry.output.path}.available", "Capture the outputs of the fixed batch first."
                    findings.miss("R-09A", path, "true, as the spec requires", "false", action)
                if self.plan.equivalence is not None and entry.restore_count:
                    path = f"{entry.path}.restore_equivalence"
                    check_equivalence(self.plan.equivalence, entry.equivalence, path, findings)
                if group.is_resumed and entry.restore_count == 0:
                    path, action = f"{entry.path}.restore_count", "An arm by itself is one that was resumed: load it."
                    findings.contradict("R-09B", path, "at least 1 restore", "0", action)

    def _check_proofs(self, entry: ArmProvenance, findings: Findings) -> None:
        """The files that a proof refers to bear it out."""
        start, output = entry.initialization, entry.output
        if start.adapter_sha256 is not None:
            claims = {"adapter_sha256": start.adapter_sha256}
            self._files.check(claims, start.evidence, "R-092", start.path, findings)
        if start.checkpoint_uri is not None:
            claims = {"loaded_checkpoint_uri": start.checkpoint_uri}
            self._files.check(claims, start.evidence, "R-093", start.path, findings)
        if output.output_sha256 is not None:
            self._files.check({"output_sha256": output.output_sha256}, output.evidence, "R-099", output.path, findings)


def _by_arm(spec: Spec, arms: Iterable[ArmProvenance]) -> dict[str, list[ArmProvenance]]:
    """Entries by the arm that they are about, whether it is called by name or by role."""
    found: dict[str, list[ArmProvenance]] = {}
    for entry in arms:
        names = spec.arms_called(entry.arm)
        found.setdefault(names[0] if len(names) == 1 else entry.arm, []).append(entry)
    return found


def _evidence(entries: Iterable[ArmProvenance]) -> Iterator[str | None]:
    """The files that entries refer to."""
    for entry in entries:
        yield entry.initialization.evidence
        yield entry.output.evidence
        yield from (check.evidence for check in entry.checks)


def _compare_with_earlier(latest: _Result, earlier: Sequence[_Result], state: RunState, findings: Findings) -> None:
    """What happened to an arm stays as it was reported: its restores, and once it has results its start as well."""
    for arm, entries in latest.entries.items():
        for result in earlier:
            for before in result.entries.get(arm, ()):
                _compare_restores(entries[0], before, result.update, findings)
        trained = _first_results(state, arm)
        if trained is None or trained >= latest.update:
            continue
        in_force = [result for result in earlier if result.update <= trained and arm in result.entries]
        if in_force:
            _compare_start(entries[0], in_force[-1].entries[arm][0], in_force[-1].update, findings)


def _compare_restores(now: ArmProvenance, before: ArmProvenance, update: int, findings: Findings) -> None:
    """A restore is not undone by leaving it out, nor does it go better when it is told again."""
    action = "Keep what was reported about each restore; a further restore gets a further check."
    if now.restore_count is not None and before.restore_count is not None and now.restore_count < before.restore_count:
        path, expected = f"{now.path}.restore_count", f"at least {before.restore_count}, as in update {update}"
        findings.miss("R-097", path, expected, str(now.restore_count), action)
    observed = {check.after_restore: check for check in before.checks if check.after_restore > 0}
    for check in now.checks:
        earlier = observed.get(check.after_restore, check)
        if check.actual != earlier.actual or not is_same(check.config, earlier.config):
            expected, found = f"what update {update} says about this restore", "something else"
            findings.miss("R-097", check.path, expected, found, action)


def _compare_start(now: ArmProvenance, before: ArmProvenance, update: int, findings: Findings) -> None:
    """The start of an arm that was trained is past: it is not measured again."""
    for name, value, earlier in _start_values(now, before):
        if earlier is not None and value != earlier:
            path, expected = f"{now.path}.{name}", f"{show(earlier)}, as in update {update}"
            action = "Keep what was measured before the arm was trained."
            findings.miss("R-091", path, expected, show(value), action)


def _start_values(now: ArmProvenance, before: ArmProvenance) -> Iterator[tuple[str, str | None, str | None]]:
    start, earlier = now.initialization, before.initialization
    yield "initialization.base_checkpoint", start.base_checkpoint, earlier.base_checkpoint
    yield "initialization.adapter_sha256", start.adapter_sha256, earlier.adapter_sha256
    yield "initialization.checkpoint_uri", start.checkpoint_uri, earlier.checkpoint_uri
    yield "initial_output.batch_sha256", now.output.batch_sha256, before.output.batch_sha256
    yield "initial_output.output_sha256", now.output.output_sha256, before.output.output_sha256
    yield "optimizer_checks", _created_as(now), _created_as(before)


def _created_as(entry: ArmProvenance) -> str | None:
    """The optimizer family at the creation."""
    return next((check.actual for check in entry.checks if check.after_restore == 0), None)


def _is_too_late(first: _Result, plan: RestorationPlan, state: RunState) -> bool:
    """Whether the first report that holds came when there was nothing left to train (R-091)."""
    newest = max(first.update, first.files_after)
    completed = [state.completed_arms.get(arm.name, newest + 1) for arm in plan.arms]
    return state.final_update in (first.update, first.files_update) or all(update <= newest for update in completed)


def _reason(status: GateStatus, plan: RestorationPlan, earlier: Sequence[_Result]) -> str:
    reason = _REASONS[status].format(arms=len(plan.arms))
    if failing := [str(result.update) for result in earlier if result.findings.status is not GateStatus.PASSED]:
        reason += f" Earlier reports did not hold: update {', '.join(failing[:MAX_PROBLEMS])}."
    return reason


_REASONS = {
    GateStatus.PASSED: "{arms} arms started as their groups ask, with the optimizers asked for, as reported.",
    GateStatus.FAILED: "The arms did not start alike, or not with the optimizers that were asked for.",
    GateStatus.UNVERIFIED: "It is not shown that the arms started alike, with the optimizers that were asked for.",
}


def _early_flags(plan: RestorationPlan, state: RunState, first: _Result | None) -> tuple[Flag, ...]:
    """Arms with results from before anything about their start was verified (R-09F)."""
    flags = []
    for arm in plan.arms:
        trained = _first_results(state, arm.name)
        if trained is not None and (first is None or trained <= first.shown_after):
            text = f"trained_before_verified: it has results of {show(arm.name)}, whose start was not verified by then."
            flags.append(Flag("R-09F", trained, text))
    return tuple(flags)


def _first_results(state: RunState, arm: str) -> int | None:
    """The first update with a metric of an arm, or that calls it completed."""
    updates = [history.values[0].update for history in state.arms.get(arm, {}).values()]
    if arm in state.completed_arms:
        updates.append(state.completed_arms[arm])
    return min(updates, default=None)


def _entry_flags(update: int, entries: Mapping[str, Sequence[ArmProvenance]], planned: frozenset[str]) -> list[Flag]:
    """What a reader should notice about the entries of one report."""
    flags = []
    for arm, found in entries.items():
        if arm not in planned:
            flags.append(
                Flag("R-091", update, f"has an entry for {show(arm)}, which is in no group; it is not judged.")
            )
        for entry in found:
            if any(check.actual is not None and not check.from_server for check in entry.checks):
                flags.append(Flag("R-097", update, f"names an optimizer of {show(arm)} that no server response shows."))
            if entry.output.reason is not None and not entry.output.available:
                text = f"has no initial output of {show(arm)}: {show(entry.output.reason)}."
                flags.append(Flag("R-09A", update, text))
    return flags
