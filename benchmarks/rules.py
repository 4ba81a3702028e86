"""The Exchange's rules, against the least that anybody has to do with the same bytes: read the JSON, take the hash."""

import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

from benchmarks.comparison import Comparison
from research_exchange.decision import decide_run
from research_exchange.documents import EvidenceFile, EvidenceShelf, JsonValue, Spec, StoredUpdate, Verdict
from research_exchange.documents.observations import MAX_BYTES, MAX_ROWS, read_file
from research_exchange.evaluation import evaluator_id
from research_exchange.evidence import MAX_FILES, MAX_RUN_BYTES
from research_exchange.experiment_features import FEATURES
from research_exchange.judgment import judge
from research_exchange.updates import fold

ROUNDS = 7
ARMS = ("treatment", "baseline")
ITEMS = 29_000
"""So many that one row for each arm fills a file to its cap."""
MEMORY_MB = 200


@dataclass(frozen=True)
class Race:
    """A piece of work, and the least that its bytes take anybody."""

    work: str
    peer: str
    ours: Callable[[], None]
    theirs: Callable[[], None]
    target: float
    """Most times as long."""

    def times(self, clock: Callable[[], float]) -> tuple[float, float]:
        """Seconds of both, one after the other: a busy machine slows both alike."""
        started = clock()
        self.ours()
        between = clock()
        self.theirs()
        return between - started, clock() - between


def run() -> list[Comparison]:
    """Reading and deciding the largest file, reading the most rows, and judging the largest run."""
    return [_compare(decision()), *map(_compare, parser()), _memory(), _compare(judgment())]


def _compare(race: Race) -> Comparison:
    rounds = [race.times(time.perf_counter) for _ in range(ROUNDS)]
    ours, theirs = (1000 * statistics.median(side) for side in zip(*rounds, strict=True))
    return Comparison(race.work, race.peer, ours, theirs, "ms", race.target)


def decision() -> Race:
    rows = b"".join(largest_rows())
    assert 0.95 * MAX_BYTES < len(rows) <= MAX_BYTES, len(rows)
    file = evidence_file("rows.jsonl", "metrics", rows)
    spec = largest_spec()
    state = fold(spec, largest_updates(file))

    def ours() -> None:
        found = decide_run(spec, state, EvidenceShelf([file]))
        assert found.verdict is Verdict.SUPPORTED, found.problems

    return Race("read and decide 10 MiB of rows", "json.loads per line", ours, lambda: _parse_lines(rows), 1.5)


def parser() -> list[Race]:
    content = b"".join(_short_rows(MAX_ROWS))
    half = content[: len(content) // 2]
    work = f"read {MAX_ROWS:,} rows"
    return [
        Race(work, "json.loads per line", lambda: _read(content), lambda: _parse_lines(content), 1.5),
        Race(work, "half of them, twice", lambda: _read(content), lambda: _read(half, times=2), 1.25),
    ]


def _memory() -> Comparison:
    content = b"".join(_short_rows(MAX_ROWS))
    tracemalloc.start()
    _read(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Comparison(f"read {MAX_ROWS:,} rows", "the limit", peak / 1e6, MEMORY_MB, "MB", target=1.0)


def judgment() -> Race:
    files = _files()
    spec, updates = largest_spec(), largest_updates(files[0])
    size = sum(file.size for file in files)
    assert len(files) == MAX_FILES
    assert 0.95 * MAX_RUN_BYTES < size <= MAX_RUN_BYTES, size

    def ours() -> None:
        fresh = [replace(update) for update in updates]  # a stored update keeps what it was parsed to
        found = judge(spec, fresh, files)
        assert found.recorded_verdict is Verdict.SUPPORTED, found.explanation

    def theirs() -> None:
        for file in files:
            content = file.content()
            sha256(content).hexdigest()
            if file.name.endswith(".jsonl"):
                _parse_lines(content)
        for update in updates:
            json.loads(update.raw)

    return Race(f"judge a run of {MAX_FILES} files", "hash and json.loads", ours, theirs, 3.0)


def _read(content: bytes, times: int = 1) -> None:
    for _ in range(times):
        assert len(read_file(content, "rows.jsonl")) == content.count(b"\n")


def _parse_lines(content: bytes) -> None:
    for line in content.splitlines():
        json.loads(line)


# --- The largest run that the Exchange takes ---


def largest_spec() -> Spec:
    unused = set(FEATURES) - {"paired_comparison"}
    criterion = {
        "id": "primary",
        "metric": "accuracy",
        "weights": {"treatment": 1, "baseline": -1},
        "margin": -0.05,
        "bounds": [0, 1],
    }
    rule = {"version": 1, "unit": "fixed_checkpoint_items", "seeds": [0], "alpha": 0.05, "method": "paired_hoeffding"}
    return Spec.parse(
        json.dumps(
            {
                "title": "The largest run",
                "experiment_features": {**dict.fromkeys(sorted(unused), False), "paired_comparison": True},
                "arms": [{"name": arm, "role": arm} for arm in ARMS],
                "decision_rule": {**rule, "criteria": [criterion]},
            }
        ).encode()
    )


_PROVENANCE: Mapping[str, JsonValue] = {
    "code_sha256": "c0de" * 16,
    "prompt_template": "{question}",
    "decoding": {"temperature": 0, "max_tokens": 512, "stop": []},
    "parser": "last_number",
    "items": {"ids": [f"test-{item:05}" for item in range(ITEMS)]},
}
_EVALUATOR = evaluator_id(_PROVENANCE)


def _value(arm: str, item: int) -> int:
    return int(item % 10 < (7 if arm == "treatment" else 6))


def largest_updates(rows: EvidenceFile) -> list[StoredUpdate]:
    scores = [
        {
            "arm": arm,
            "metric": "accuracy",
            "value": sum(_value(arm, item) for item in range(ITEMS)) / ITEMS,
            "evaluator_id": _EVALUATOR,
            "seed": 0,
            "predictions_ref": f"predictions-{arm}.jsonl",
        }
        for arm in ARMS
    ]
    final = {
        "status": "succeeded",
        "summary": "Done.",
        "verdict": "supported",
        "deviations": [],
        "completed_arms": list(ARMS),
        "metrics": {"arms": {str(score["arm"]): {"accuracy": score["value"]} for score in scores}},
        "evaluation": {
            "version": 1,
            "evaluators": {_EVALUATOR: _PROVENANCE},
            "scores": scores,
            "comparisons": [{"metric": "accuracy", "arms": list(ARMS)}],
        },
        "decision": {"version": 1, "observations_file": {"name": rows.name, "sha256": rows.sha256}},
    }
    evaluation = {"version": 1, "evaluators": {_EVALUATOR: _PROVENANCE}, "scores": [], "comparisons": []}
    bodies = ({"status": "running", "deviations": [], "evaluation": evaluation}, final)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [StoredUpdate(number, start, json.dumps(body).encode()) for number, body in enumerate(bodies, start=1)]


def largest_rows() -> Iterator[bytes]:
    for arm in ARMS:
        for item in range(ITEMS):
            row = {
                "item_id": f"test-{item:05}",
                "arm": arm,
                "seed": 0,
                "metric": "accuracy",
                "value": _value(arm, item),
                "evaluator_id": _EVALUATOR,
            }
            yield json.dumps(row).encode() + b"\n"


def _short_rows(count: int) -> Iterator[bytes]:
    for item in range(count):
        yield b'{"item_id": "%06d", "arm": "a", "seed": 0, "metric": "m", "value": 0, "evaluator_id": "e"}\n' % item


def _predictions(arm: str) -> Iterator[bytes]:
    for item in range(ITEMS):
        row = {
            "item_id": f"test-{item:05}",
            "arm": arm,
            "seed": 0,
            "metric": "accuracy",
            "evaluator_id": _EVALUATOR,
            "prediction": f"{item} apples cost {item} coins, so that the answer is {item if _value(arm, item) else -1}",
            "reference": str(item),
            "value": _value(arm, item),
        }
        yield json.dumps(row).encode() + b"\n"


def _files() -> list[EvidenceFile]:
    """Rows, predictions and scripts, and logs that fill the run up to its cap."""
    files = [evidence_file("rows.jsonl", "metrics", b"".join(largest_rows()))]
    files += [evidence_file(f"predictions-{arm}.jsonl", "predictions", b"".join(_predictions(arm))) for arm in ARMS]
    kinds = ("script", "effective_config", "code_revision", "code_patch")
    files += [evidence_file(f"{kind}.txt", kind, b"nothing\n" * 1000) for kind in kinds]
    rest = (MAX_RUN_BYTES - sum(file.size for file in files)) // (MAX_FILES - len(files))
    return files + [evidence_file(f"log-{n}.txt", "log", bytes([n]) * rest) for n in range(MAX_FILES - len(files))]


def evidence_file(name: str, kind: str, content: bytes) -> EvidenceFile:
    return EvidenceFile(name, kind, sha256(content).hexdigest(), len(content), 2, lambda: content)
