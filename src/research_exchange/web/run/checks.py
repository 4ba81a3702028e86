"""What was measured before and beside the training: errors of new code, batches that were consumed, and the audit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.correctness import check_correctness
from research_exchange.correctness.check import PathResult
from research_exchange.documents.correctness_plan import parse_plan
from research_exchange.documents.correctness_report import parse_report
from research_exchange.documents.generation_audit import AuditContract, AuditReport, parse_contract
from research_exchange.documents.generation_audit import parse_report as parse_audit
from research_exchange.documents.manifests import MANIFESTS, parse_manifests
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec

_CORRECTNESS, _AUDIT = "correctness_preflight", "generation_audit"


@dataclass(frozen=True)
class CorrectnessTable:
    update: int | None
    """The newest report; None where there is none."""
    paths: tuple[PathResult, ...]
    planned: tuple[str, ...]
    """Ids of the plan's paths."""


@dataclass(frozen=True)
class ConsumedBatches:
    """One arm's entry of the manifests."""

    arm: str
    pair: str
    warmup: int
    count: int
    sha256: str
    """Over the ids, recomputed."""
    agrees: bool | None
    """With every other arm of its pair; None where it has none."""


@dataclass(frozen=True)
class Manifests:
    update: int | None
    entries: tuple[ConsumedBatches, ...]


@dataclass(frozen=True)
class AuditTable:
    update: int | None
    contract: AuditContract
    report: AuditReport | None

    @property
    def sampled(self) -> int:
        return 0 if self.report is None or self.report.samples is None else len(self.report.samples)


def correctness(spec: Spec, state: RunState, *, required: bool) -> CorrectnessTable | None:
    """None where the check is not required and the run reports nothing about it."""
    posted = state.latest(_CORRECTNESS)
    if posted is None and not required:
        return None
    plan = parse_plan(spec.value.get(_CORRECTNESS))
    found = check_correctness(plan, None if posted is None else parse_report(posted.value))
    planned = tuple(path.id for path in plan.paths)
    return CorrectnessTable(None if posted is None else posted.update, found.paths, planned)


def manifests(state: RunState, *, required: bool) -> Manifests | None:
    """None where they are not required and the run reports none."""
    posted = state.latest(MANIFESTS)
    if posted is None:
        return Manifests(None, ()) if required else None
    entries = parse_manifests(posted.value).entries
    in_pair = Counter(entry.pair for entry in entries)
    hashes: Mapping[str, set[str]] = {pair: {e.sha256 for e in entries if e.pair == pair} for pair in in_pair}
    return Manifests(
        posted.update,
        tuple(
            ConsumedBatches(
                arm=entry.arm,
                pair=entry.pair,
                warmup=entry.warmup_batches,
                count=len(entry.ids),
                sha256=entry.sha256,
                agrees=len(hashes[entry.pair]) == 1 if in_pair[entry.pair] > 1 else None,
            )
            for entry in entries
        ),
    )


def audit(spec: Spec, state: RunState, *, required: bool) -> AuditTable | None:
    """None where no audit is required and the run reports none."""
    posted = state.latest(_AUDIT)
    if posted is None and not required:
        return None
    contract = parse_contract(spec.section(_AUDIT))
    return AuditTable(
        None if posted is None else posted.update, contract, None if posted is None else parse_audit(posted.value)
    )
