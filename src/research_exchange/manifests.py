"""The manifests gate: arms that are compared adapted on the same batches, in the same order (contract §16).

A phase that one arm has for itself comes before the shared steps and takes batches of its own. Run as one stream
with them it would shift every shared batch, and two arms that look paired would have seen different data.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from research_exchange.documents.decision_rule import Criterion, parse_decision_rule
from research_exchange.documents.fields import is_whole, show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Flag, GateStatus, Problem, Provenance, Reading
from research_exchange.documents.json import JsonValue
from research_exchange.documents.manifests import MANIFESTS, Manifest, batch_hash, parse_manifests
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Arm, Spec

__all__ = ["batch_hash", "read_manifests"]

_SAME_BATCHES = "Train the arms of a pair on the same batches in the same order; a phase of one arm takes others."


def read_manifests(spec: Spec, state: RunState) -> Reading:
    """Judges the latest report; what an earlier one says was consumed stays consumed."""
    posted = state.latest(MANIFESTS)
    if posted is None:
        action = "Report for each training arm the ids of the batches that it consumed, and their hash."
        problem = Problem("R-181", MANIFESTS, "an entry for each training arm", "nothing", action)
        return Reading(GateStatus.UNVERIFIED, "No manifests were reported.", (problem,))
    report = parse_manifests(posted.value)
    findings = report.findings
    by_arm = _by_arm(spec, report.entries, findings)
    pairs = _pairs(by_arm)
    _check_coverage(spec, by_arm, findings)
    for pair, entries in pairs.items():
        _check_pair(pair, entries, findings)
    for criterion in _criteria(spec):
        _check_compared(criterion, spec, by_arm, findings)
    _check_earlier(spec, by_arm, state.posted[MANIFESTS][:-1], findings)
    shared: dict[str, JsonValue] = {
        f"pairs[{show(pair)}]": entries[0][1].sha256
        for pair, entries in pairs.items()
        if len({entry.sha256 for _, entry in entries}) == 1
    }
    sources = dict.fromkeys(shared, Provenance.RECOMPUTED)
    flags = _short_records(spec, by_arm, posted.update)
    return Reading(findings.status, _REASONS[findings.status], findings.problems, shared, sources, flags)


_REASONS = {
    GateStatus.PASSED: "The arms of each pair consumed the same batches in the same order, as reported.",
    GateStatus.FAILED: "The arms of a pair consumed other batches, or a hash is not that of its ids.",
    GateStatus.UNVERIFIED: "It is not shown that arms that are compared consumed the same batches.",
}


def _by_arm(spec: Spec, entries: Sequence[Manifest], findings: Findings) -> dict[str, list[Manifest]]:
    """Entries by the arm that they are about, whether it is called by name or by role."""
    found: dict[str, list[Manifest]] = {}
    for entry in entries:
        arm = _arm_of(spec, entry)
        if arm is None:
            expected = f"an arm of the spec ({show_names(spec.arm_names)}), or the role of exactly one"
            findings.miss("R-181", f"{entry.path}.arm", expected, show(entry.arm), "Name the arm that was trained.")
        else:
            found.setdefault(arm, []).append(entry)
    for arm, several in found.items():
        if len(several) > 1:
            action = "Report each arm once."
            findings.miss("R-181", f"{several[1].path}.arm", "an arm without an entry yet", show(arm), action)
    return found


def _arm_of(spec: Spec, entry: Manifest) -> str | None:
    """A spec that names no arms leaves that to the report."""
    names = spec.arms_called(entry.arm) if spec.arms else (entry.arm,)
    return names[0] if len(names) == 1 else None


def _pairs(by_arm: Mapping[str, Sequence[Manifest]]) -> dict[str, list[tuple[str, Manifest]]]:
    """Arms and entries by pair, in order of name."""
    pairs: dict[str, list[tuple[str, Manifest]]] = {}
    for arm in sorted(by_arm):
        for entry in by_arm[arm]:
            pairs.setdefault(entry.pair, []).append((arm, entry))
    return pairs


def _check_coverage(spec: Spec, by_arm: Mapping[str, Sequence[Manifest]], findings: Findings) -> None:
    """Every arm has an entry, unless the spec says that it is not trained."""
    missing = [arm.name for arm in spec.arms if arm.is_trained is not False and arm.name not in by_arm]
    if missing:
        action = "Report it; an arm that is frozen says so in the spec, by steps 0 or frozen true."
        findings.miss("R-182", MANIFESTS, f"an entry for {show_names(missing)}", "none", action)


def _check_pair(pair: str, entries: Sequence[tuple[str, Manifest]], findings: Findings) -> None:
    arms = {arm for arm, _ in entries}
    if len(arms) == 1:
        path, expected = f"{entries[0][1].path}.pair", f"another arm in the pair {show(pair)}"
        action = "Give arms that are compared the same pair."
        findings.miss("R-182", path, expected, f"{show(entries[0][0])} alone", action)
    _, first = entries[0]
    for _, entry in entries[1:]:
        if entry.ids != first.ids:
            expected = f"the batches of {show(first.arm)}, its partner in {show(pair)}"
            found = _difference(entry.ids, first.ids)
            findings.contradict("R-182", f"{entry.path}.adaptation_batch_ids", expected, found, _SAME_BATCHES)


def _difference(ids: Sequence[str], wanted: Sequence[str]) -> str:
    place = next((index for index, (one, other) in enumerate(zip(ids, wanted, strict=False)) if one != other), None)
    if place is None:
        return f"{len(ids)} instead of {len(wanted)}"
    return f"{show(ids[place])} instead of {show(wanted[place])} at place {place}"


def _criteria(spec: Spec) -> Sequence[Criterion]:
    rule = parse_decision_rule(spec).rule
    return () if rule is None else rule.criteria


def _check_compared(
    criterion: Criterion, spec: Spec, by_arm: Mapping[str, Sequence[Manifest]], findings: Findings
) -> None:
    """An arm that a criterion holds against others of its seed shares its pair with one of them (R-180)."""
    sides: dict[_Side, set[str]] = {}
    weighed = [arm for arm in spec.arms if arm.name in by_arm and criterion.weights.get(arm.name, 0) != 0]
    for arm in weighed:
        sides.setdefault(_side(criterion, arm), set()).update(entry.pair for entry in by_arm[arm.name])
    for arm in weighed:
        entry, side = by_arm[arm.name][0], _side(criterion, arm)
        opposite = sides.get(_Side(not side.favoured, side.seed), set())
        if opposite and entry.pair not in opposite:
            expected = f"a pair of the arms it is compared with ({show_names(sorted(opposite))})"
            action = "Give arms that are compared at the same seed the same pair."
            findings.miss("R-180", f"{entry.path}.pair", expected, show(entry.pair), action)


class _Side(NamedTuple):
    """Where an arm stands in a comparison."""

    favoured: bool
    """Its weight is above 0."""
    seed: int | None
    """Of the arm, where the spec gives it one."""


def _side(criterion: Criterion, arm: Arm) -> _Side:
    seed = arm.value.get("seed")
    return _Side(criterion.weights[arm.name] > 0, seed if is_whole(seed) else None)


def _check_earlier(
    spec: Spec, by_arm: Mapping[str, Sequence[Manifest]], history: Sequence[Posted], findings: Findings
) -> None:
    """A later report may go on where an earlier one ended; it does not change what was consumed (R-182)."""
    for posted in history:
        for entry in parse_manifests(posted.value).entries:
            for now in by_arm.get(_arm_of(spec, entry) or "", ()):
                if now.ids[: len(entry.ids)] != entry.ids:
                    path, expected = f"{now.path}.adaptation_batch_ids", f"the batches of update {posted.update} first"
                    found = _difference(now.ids, entry.ids)
                    findings.miss("R-182", path, expected, found, "Keep the record of what was consumed.")


def _short_records(spec: Spec, by_arm: Mapping[str, Sequence[Manifest]], update: int) -> tuple[Flag, ...]:
    """Arms with fewer batches than steps: a record that ends early shows no difference that comes later (R-181)."""
    flags = []
    for arm in spec.arms:
        steps = arm.value.get("steps")
        for entry in by_arm.get(arm.name, ()):
            count = len(entry.ids) + entry.warmup_batches
            if is_whole(steps) and count < steps:
                text = f"records {count} batches of {show(arm.name)}, which takes {steps} steps."
                flags.append(Flag("R-181", update, text))
    return tuple(flags[:MAX_PROBLEMS])
