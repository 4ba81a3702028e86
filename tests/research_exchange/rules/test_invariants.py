"""The invariants that hold for every run, tried on the honest runs of the catalogue with arbitrary JSON inside.

Here is what concerns all gates together: (ii) order, (iii) definitive verdicts, (iv) no exception and bounded time,
(vi) one answer for runner and server, (vii) the formulas that a brief quotes.
"""

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.briefs.texts import load
from research_exchange.correctness.__main__ import EXIT_CODES, main
from research_exchange.decision import decide
from research_exchange.documents import GateStatus, Spec
from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.run_document import RunDocument
from research_exchange.evaluation import evaluator_id
from research_exchange.generation_audit import validate
from research_exchange.judgment import Judgment, judge
from research_exchange.manifests import batch_hash
from tests.research_exchange.rules.lies import BASES, base_run
from tests.research_exchange.rules.support import patched, paths
from tests.research_exchange.rules.test_lying_runner import ANYTHING

SECONDS = 10
"""For one judgment of a short run on a busy machine; it takes some hundredths."""
HOSTILE = ANYTHING | st.sampled_from(
    [2**63 - 1, -(2**63), 1e308, 5e-324, "1e999999999", "9" * 500, [[]] * 200, {str(n): {} for n in range(200)}]
)


def judged(document: Mapping[str, Any]) -> Judgment:
    run = RunDocument.parse(json.dumps(document).encode())
    return judge(run.spec, run.updates, run.evidence, ended=run.ended)


@cache
def places(base: str) -> tuple[str, ...]:
    """Every part of an honest run that a spec or an update is made of."""
    found = paths(base_run(base))
    return tuple(path for path in found if path.startswith(("/spec/", "/updates/")) and path != "/spec/title")


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """The name of an honest run, and what is put in place of one or two of its parts."""
    base = draw(st.sampled_from(sorted(BASES)))
    found = draw(st.lists(st.sampled_from(places(base)), min_size=1, max_size=2, unique=True))
    operations = st.sampled_from(["replace", "replace", "remove"])
    return base, [{"op": draw(operations), "path": place, "value": draw(HOSTILE)} for place in found]


def changed(base: str, operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    document = base_run(base)
    for operation in operations:
        with contextlib.suppress(LookupError, TypeError, ValueError, AssertionError):  # its place may be gone by then
            document = patched(document, [operation])
    return document


@settings(max_examples=150, deadline=None)
@given(changes())
def test_a_definitive_verdict_never_stands_beside_a_required_gate_that_is_not_passed(change: Any) -> None:
    """(iii), (iv): whatever stands anywhere is judged, soon, and alike each time."""
    document = changed(*change)
    start = time.monotonic()
    judgment = judged(document)
    assert time.monotonic() - start < SECONDS
    assert judgment.canonical_bytes() == judged(document).canonical_bytes()
    if judgment.recorded_verdict in ("supported", "refuted"):
        is_legacy = "experiment_features" not in document["spec"]
        allowed = {GateStatus.PASSED, GateStatus.NOT_APPLICABLE} | ({GateStatus.UNKNOWN} if is_legacy else set())
        assert {gate.status for gate in judgment.gates} <= allowed
        assert judgment.decision is None or judgment.decision.verdict is judgment.recorded_verdict
    for gate in judgment.gates:
        assert bool(gate.problems) == (gate.status in (GateStatus.FAILED, GateStatus.UNVERIFIED)), gate.gate


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(BASES)), st.randoms(use_true_random=False))
def test_order_changes_nothing(base: str, random: Any) -> None:
    """(ii): neither that of rows, answers, tasks and files, nor that of keys in the spec."""
    document, shuffled = base_run(base), base_run(base)
    for file in shuffled["evidence"]:
        if file["name"].endswith(".jsonl"):
            lines = file["content"].splitlines(keepends=True)
            random.shuffle(lines)
            file["content"] = "".join(lines)
            if file["name"] == "rows.jsonl":
                digest = hashlib.sha256(file["content"].encode()).hexdigest()
                shuffled["updates"][3].get("decision", {}).get("observations_file", {}).update(sha256=digest)
    if "observations" in shuffled["updates"][3].get("decision", {}):
        random.shuffle(shuffled["updates"][3]["decision"]["observations"])
    random.shuffle(shuffled["evidence"])
    keys = list(shuffled["spec"])
    random.shuffle(keys)
    shuffled["spec"] = {key: shuffled["spec"][key] for key in keys}
    before, after = judged(document), judged(shuffled)
    assert after.gates == before.gates
    assert (after.recorded_verdict, after.basis, after.flags) == (before.recorded_verdict, before.basis, before.flags)
    if before.decision is not None and after.decision is not None:
        assert after.decision.criteria == before.decision.criteria


# --- (vi) One answer for runner and server ---


def within(base: str, *prefixes: str) -> st.SearchStrategy[tuple[str, Any]]:
    """A place of an honest run under one of these, and what to put there."""
    return st.tuples(st.sampled_from([place for place in places(base) if place.startswith(prefixes)]), ANYTHING)


PREFLIGHT = "/updates/1/correctness_preflight/", "/spec/correctness_preflight/", "/spec/experiment_features/custom"


@settings(max_examples=60, deadline=None)
@given(within("optimizer", *PREFLIGHT))
def test_the_preflight_command_answers_as_the_server(tmp_path_factory: pytest.TempPathFactory, change: Any) -> None:
    place, value = change
    document = patched(base_run("optimizer"), [{"op": "replace", "path": place, "value": value}])
    gate = judged(document).gate("correctness_preflight")
    folder = tmp_path_factory.getbasetemp()
    files = folder / "invariant-spec.json", folder / "invariant-update.json"
    for file, content in zip(files, (document["spec"], document["updates"][1]), strict=True):
        file.write_text(json.dumps(content))
    assert main([str(file) for file in files]) == EXIT_CODES[gate.status]


@settings(max_examples=60, deadline=None)
@given(within("inline", "/updates/3/decision/observations/1", "/updates/3/evaluation", "/spec/decision_rule"))
def test_a_runner_decides_as_the_server(change: tuple[str, Any]) -> None:
    """From rows alone, where no retained answers have a say."""
    place, value = change
    document = base_run("inline")
    document["evidence"] = [file for file in document["evidence"] if file["kind"] != "predictions"]
    document = patched(document, [{"op": "replace", "path": place, "value": value}])
    final = document["updates"][3]
    judgment, spec = judged(document), Spec.parse(json.dumps(document["spec"]).encode())
    if judgment.decision is None:
        assert not document["spec"].get("decision_rule")
        return
    rows = as_mapping(final.get("decision")).get("observations")
    answer = decide(spec, as_list(rows), final.get("evaluation"))
    if judgment.decision.status is GateStatus.PASSED:
        assert answer == judgment.decision
    else:
        assert answer.status is not GateStatus.PASSED or {p.rule for p in judgment.decision.problems} <= {
            "R-137",
            "R-080",
        }


@settings(max_examples=60, deadline=None)
@given(within("generated", "/updates/1/generation_audit", "/spec/generation_audit"))
def test_an_audit_is_validated_as_by_the_server(change: tuple[str, Any]) -> None:
    """The server adds what only it sees: whether files are retained, and what came when."""
    place, value = change
    document = patched(base_run("generated"), [{"op": "replace", "path": place, "value": value}])
    files = {file["name"]: file["content"] for file in document["evidence"]}
    tasks, evaluation = (
        [json.loads(line) for line in files[name].splitlines()] for name in ("tasks.jsonl", "evaluation.jsonl")
    )
    report, contract = document["updates"][1].get("generation_audit"), document["spec"].get("generation_audit")
    answer = validate(report, contract, tasks=tasks, evaluation=evaluation)
    gate = judged(document).gate("generation_audit")
    if gate.status is GateStatus.PASSED:
        assert answer["status"] == "passed"
    if answer["status"] == "failed" and as_mapping(report).get("dataset_file") == "tasks.jsonl":
        assert gate.status is not GateStatus.PASSED


# --- (vii) The formulas that a brief quotes ---


def quoted(text: str, name: str) -> str:
    """The expression that a text of the briefs gives."""
    found = re.search(name, load(text), re.DOTALL)
    assert found is not None
    return found[1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=5))
def test_the_hash_of_batches_is_the_formula_of_the_brief(ids: list[str]) -> None:
    formula = quoted("batch_order", r"`(hashlib\.sha256\(json\.dumps[^`]*)`")
    namespace = {"adaptation_batch_ids": ids, "json": json, "hashlib": hashlib}
    assert eval(formula, namespace) == batch_hash(ids)


@settings(max_examples=50, deadline=None)
@given(ANYTHING)
def test_an_evaluator_id_is_the_formula_of_the_brief(provenance: Any) -> None:
    code = quoted("evaluation", r"```python\n(.*?)```")
    namespace = {"provenance": provenance, "json": json, "hashlib": hashlib}
    exec(re.sub(r"(?m)^ {2}", "", code), namespace)
    assert namespace["evaluator_id"] == evaluator_id(provenance)
