"""The restoration gate: every row of contract §8, and the lies that it is there for (R-090 to R-09F)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import EvidenceFile, EvidenceLost, EvidenceShelf
from research_exchange.documents.gates import Reading
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.restoration import plan_problems, read_restoration
from research_exchange.updates import fold
from tests.research_exchange.rules.support import file_of, patched, paths, spec_of, updates_of, vectors

VECTORS = vectors("restoration")
CASES = {case["name"]: case for case in VECTORS["cases"]}
REPORT = "/updates/0/initialization_provenance"
POSTED = {"initialization_provenance": VECTORS["base"]["updates"][0]["initialization_provenance"]}


def reading_of(bundle: Any, files: list[EvidenceFile] | None = None) -> Reading:
    spec = spec_of(bundle["spec"])
    kept = [file_of(file["name"], file["kind"], file["content"]) for file in bundle["evidence"]]
    return read_restoration(spec, fold(spec, updates_of(bundle["updates"])), EvidenceShelf(files or kept))


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    reading = reading_of(patched(VECTORS["base"], case["patch"]))
    problems = [str(problem) for problem in reading.problems]
    assert (reading.status, sorted({problem.rule for problem in reading.problems})) == (
        case["status"],
        case["rules"],
    ), problems
    if "path" in case:
        assert reading.problems[0].path == case["path"], problems
    if "flags" in case:
        assert sorted(flag.rule for flag in reading.flags) == case["flags"]
    assert reading.computed == case.get("computed", reading.computed)
    assert reading.provenance.keys() == reading.computed.keys()


@pytest.mark.parametrize(
    ("update", "status", "flags"),
    [(1, "passed", []), (2, "passed", []), (3, "passed", ["R-09F"]), (4, "unverified", ["R-09F", "R-09F"])],
)
def test_a_proof_counts_from_when_its_file_is_there(update: int, status: str, flags: list[str]) -> None:
    """R-091, R-09F: one arm is completed by update 2, the other by update 3."""
    completed = [{"status": "running", "completed_arms": arms} for arms in (["grpo"], ["grpo", "gs1"])]
    (file,) = VECTORS["base"]["evidence"]
    bundle = {**VECTORS["base"], "updates": [{"status": "running", **POSTED}, *completed]}
    reading = reading_of(bundle, [file_of(file["name"], file["kind"], file["content"], update)])
    assert (reading.status, [flag.rule for flag in reading.flags]) == (status, flags)
    for problem in reading.problems:
        assert (problem.rule, problem.found[-25:]) == ("R-091", "files from after update 3")


def test_case_names_are_different() -> None:
    assert len(CASES) == len(VECTORS["cases"])


def test_plan_problems_are_those_of_the_spec_alone() -> None:
    bundle = patched(VECTORS["base"], [{"op": "remove", "path": REPORT}])
    assert plan_problems(spec_of(bundle["spec"])) == ()
    bundle["spec"]["restoration_preflight"]["groups"][0]["arms"][1]["name"] = "gs2"
    assert [problem.rule for problem in plan_problems(spec_of(bundle["spec"]))] == ["R-036", "R-090"]


def test_reports_that_did_not_hold_stay_visible() -> None:
    case = CASES["arms that differed, started again before training"]
    reading = reading_of(patched(VECTORS["base"], case["patch"]))
    assert reading.reason.endswith("as reported. Earlier reports did not hold: update 1.")


def test_a_plan_has_room_for_a_hundred_arms() -> None:
    bundle = patched(VECTORS["base"], [{"op": "remove", "path": "/spec/arms"}])
    arm = bundle["spec"]["restoration_preflight"]["groups"][0]["arms"][0]
    names = [f"arm {number}" for number in range(101)]
    groups = [{"arms": [{**arm, "name": name} for name in half]} for half in (names[:50], names[50:])]
    bundle["spec"]["restoration_preflight"]["groups"] = groups
    (problem,) = plan_problems(spec_of(bundle["spec"]))
    assert (problem.rule, problem.path) == ("R-090", "restoration_preflight.groups[1].arms[50].name")


def test_evidence_that_was_lost_or_changed_shows_nothing() -> None:
    """R-16C"""

    def lost() -> bytes:
        raise EvidenceLost("The blob is gone.")

    kept = file_of("responses.jsonl", "provenance", VECTORS["base"]["evidence"][0]["content"])
    for content in (lost, lambda: b"{}"):
        file = EvidenceFile(kept.name, kept.kind, kept.sha256, kept.size, None, content)
        reading = reading_of(VECTORS["base"], [file])
        assert (reading.status, {problem.rule for problem in reading.problems}) == ("unverified", {"R-16C"})


def test_a_hash_is_recomputed_where_the_hashed_file_itself_is_retained() -> None:
    """The adapter and the outputs as files; everything else is the runner's word."""
    kept = file_of("responses.jsonl", "provenance", VECTORS["base"]["evidence"][0]["content"])
    output = file_of("logprobs.json", "probe", "[-1.25, -0.5]")
    operations: list[dict[str, Any]] = []
    for arm in range(2):
        path = f"{REPORT}/arms/{arm}/initial_output"
        operations.append({"op": "replace", "path": f"{path}/output_sha256", "value": output.sha256})
        operations.append({"op": "replace", "path": f"{path}/evidence_ref", "value": output.name})
    one = file_of("responses.jsonl", "provenance", kept.content() + output.sha256.encode())
    reading = reading_of(patched(VECTORS["base"], operations[:3]), [one, output])
    assert set(reading.provenance.values()) == {"declared"}
    reading = reading_of(patched(VECTORS["base"], operations), [kept, output])
    assert reading.status == "passed"
    assert {name for name, source in reading.provenance.items() if source == "recomputed"} == {
        "groups[0].output_sha256"
    }


def test_many_entries_and_checks_are_named_a_few_times() -> None:
    """A small update must not fill the store with sentences about it."""
    values: list[Any] = [
        [{"arm": "grpo", "optimizer_checks": [{}] * 300}] * 300,
        {str(number): {} for number in range(5_000)},
        [{"arm": "gs1", "restore_count": 2**62}],
    ]
    for value in values:
        bundle = patched(VECTORS["base"], [{"op": "replace", "path": f"{REPORT}/arms", "value": value}])
        reading = reading_of(bundle)
        assert reading.status == "unverified"
        assert len(reading.problems) <= MAX_PROBLEMS and len(reading.flags) <= MAX_PROBLEMS + 2


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "grpo", "gs1", "adam", "server_response", "responses.jsonl", "a" * 64, "version"]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["arm", "name", "arms", "initialization", "x"]), children, max_size=3)
    ),
    max_leaves=8,
)
PLACES = [path for path in paths(VECTORS["base"]) if "/restoration_preflight" in path or REPORT in path]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(PLACES), ANYTHING, st.sampled_from(["replace", "remove"]))
def test_anything_in_place_of_any_part_is_read(place: str, value: Any, operation: str) -> None:
    """Invariant (iv): a status, never an exception, and problems exactly where it is not passed."""
    bundle = patched(VECTORS["base"], [{"op": operation, "path": place, "value": value}])
    reading = reading_of(bundle)
    assert reading == reading_of(bundle)
    assert (reading.status == "passed") == (reading.problems == ())


@pytest.mark.parametrize(
    ("cases", "status"),
    [
        (("both hashes equal, creation checked, outputs equal",), "passed"),
        (("no source of the hash",), "unverified"),
        (("hashes that differ",), "failed"),
        (("hashes that differ", "no source of the hash"), "failed"),
        (("no source of the hash", "another eps than asked for"), "failed"),
    ],
)
def test_a_contradiction_stands_before_what_is_missing(cases: tuple[str, ...], status: str) -> None:
    """R-09D"""
    patch = [operation for name in cases for operation in CASES[name]["patch"]]
    assert reading_of(patched(VECTORS["base"], patch)).status == status
