"""Runs in bundles, for reports: two arms with three seeds, logged step by step, and whatever a test changes."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from research_exchange import judgment as rules
from research_exchange.bundles import documents_of
from research_exchange.bundles.record import (
    EvidenceEntry,
    JudgmentEntry,
    RunEntry,
    RunRecord,
    SessionEntry,
    Software,
    SpecEntry,
    UpdateEntry,
)
from research_exchange.documents.spec import Spec
from research_exchange.reports import Report, report_of
from tests.research_exchange.bundles.exported import Exported, at, digest, judged
from tests.research_exchange.server import scenarios

Json = dict[str, Any]
ARMS, SEEDS, STEPS = ("trained", "untrained"), (0, 1, 2), 40


class File(NamedTuple):
    name: str
    content: bytes
    kind: str = "metrics"


def jsonl(rows: Sequence[Json]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def training_rows(arms: Sequence[str] = ARMS) -> Iterator[Json]:
    """Rewards that rise with the seed, and a gap that falls."""
    for place, arm in enumerate(arms):
        for seed in SEEDS:
            for step in range(1, STEPS + 1):
                reward = (0.3 + 0.02 * seed + 0.1 * place) * (1 - math.exp(-step / 12)) + 0.02 * math.sin(step + seed)
                yield {
                    "step": step,
                    "steps": STEPS,
                    "arm": arm,
                    "seed": seed,
                    "reward_mean": reward,
                    "grad_norm": 2.0 / step + 0.1 * place,
                    "logprob_gap_mean": 1e-6 * (1 + place) / step,
                    "entropy_estimate": 1.2 - 0.01 * step,
                    "seconds_left": 100.0 - step,
                }


def evaluation_rows() -> list[Json]:
    return [
        {"step": step, "arm": arm, "seed": seed, "accuracy": 0.2 + 0.01 * step * (1 - place) + 0.01 * seed}
        for place, arm in enumerate(ARMS)
        for seed in SEEDS
        for step in (0, 20, 40)
    ]


FILES = (
    File("training.jsonl", jsonl([*training_rows()])),
    File("evaluations.jsonl", jsonl(evaluation_rows())),
    File("observations.jsonl", scenarios.observations(150)),
)


def bundled(
    *files: File, spec: Json | None = None, updates: Sequence[Json] | None = None, title: str = "One rollout or eight"
) -> Exported:
    """A run as an Exchange exports it, judged when its last update had come, where that was a final one."""
    raw_spec = scenarios.encode(scenarios.spec(title) if spec is None else spec)
    bodies = [scenarios.calibration(), scenarios.final(150)] if updates is None else updates
    members, entries = {"spec.json": raw_spec}, []
    for sequence, body in enumerate(bodies, start=1):
        raw = scenarios.encode(body)
        entry = UpdateEntry(sequence, at(sequence), "ses_0123456789", digest(raw), len(raw))
        members[entry.member] = raw
        entries.append(entry)
    evidence = []
    for file in files:
        kept = EvidenceEntry(file.name, file.kind, digest(file.content), len(file.content), None, 0, at(0.7))
        members[kept.member] = file.content
        evidence.append(kept)
    parsed = Spec.parse(raw_spec)
    record = RunRecord(
        version=1,
        run=RunEntry("run_0123456789", "exp_0123456789", "ordinary", None, at(0), None),
        spec=SpecEntry(parsed.title, parsed.sha256, at(-5), None),
        idea=None,
        sessions=(SessionEntry("ses_0123456789", "local", at(0.5), at(20), 0, "the script ended", None),),
        updates=tuple(entries),
        evidence=tuple(evidence),
        refused=(),
        outcomes=(),
        judgment=JudgmentEntry(rules.VERSION, ""),
        queue=(),
        cancelled=None,
        software=(Software("research-exchange", "0.1.0"),),
    )
    is_final = bool(bodies) and bodies[-1]["status"] != "running"
    return judged(Exported(record, members), [(at(25), len(bodies), len(files))] if is_final else [])


def report_on(exported: Exported) -> Report:
    record, contents = exported.record, exported.contents
    return report_of(record, documents_of(record, contents), contents)


def with_bytes(exported: Exported, member: str, content: bytes) -> Exported:
    """With other bytes in place of a member."""
    return Exported(exported.record, {**exported.members, member: content})


def write(exported: Exported, path: Path) -> Path:
    path.write_bytes(exported.packed())
    return path
