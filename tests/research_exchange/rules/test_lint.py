"""What lint finds in a spec (contract §3 and §23), in the two seed specs and in changed ones under other names."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange import lint as lint_package
from research_exchange import schemas
from research_exchange.decision_verdict import CriterionState, state_of
from research_exchange.documents import Spec
from research_exchange.lint import Finding, Level, lint
from research_exchange.lint.essentials import KNOWN_FIELDS
from research_exchange.lint.linter import CHECKS, MAX_OF_A_CHECK
from research_exchange.statistics import Range, Sample, paired_hoeffding
from tests.research_exchange.rules.support import EXPERIMENTS, patched, spec_of, vectors

ROOT = Path(__file__).parents[3]
CASES = vectors("lint")
HANDED_ON = {("error", rule) for rule in ("R-032", "R-033", "R-034", "R-035", "R-036", "R-151", "R-153")}
"""What the rules say about the plans they will judge by."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def read(experiment: str, name: str = "spec.json") -> Spec:
    return Spec.parse((EXPERIMENTS / experiment / name).read_bytes())


def keys(findings: Sequence[Finding]) -> list[str]:
    """`level rule path` of each finding once, in alphabetical order: text and command may each contradict a field."""
    return sorted({f"{finding.level} {finding.rule} {finding.path}" for finding in findings})


def changed(case: Mapping[str, Any]) -> Spec:
    """An original spec under other names, then patched."""
    text = (EXPERIMENTS / case["base"] / "spec.original.json").read_text(encoding="utf-8")
    return spec_of(patched(json.loads(renamed(text, case["rename"])), case["patch"]))


def renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        assert old in text, f"{old} is not there to be renamed"
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("experiment", sorted(CASES["originals"]))
def test_the_seed_specs_as_they_stand(experiment: str) -> None:
    """R-030 to R-040 and contract §23: nothing less, and nothing more."""
    findings = lint(read(experiment, "spec.original.json"))
    assert keys(findings) == sorted(CASES["originals"][experiment])


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_changed_specs_under_other_names(case: dict[str, Any]) -> None:
    """Every fault of the original is found again, but for those that the change cures, and so is each new one."""
    names = {old: new for old, new in case["rename"].items() if old in json.dumps(CASES["originals"][case["base"]])}
    before = set(json.loads(renamed(json.dumps(CASES["originals"][case["base"]]), names)))
    assert set(case["cures"]) <= before
    assert keys(lint(changed(case))) == sorted((before - set(case["cures"])) | set(case["finds"]))


def test_no_check_is_decoration() -> None:
    """Each one finds something in some vector."""
    specs = [read(name, "spec.original.json") for name in CASES["originals"]] + [
        changed(case) for case in CASES["cases"]
    ]
    idle = [check.__name__ for check in CHECKS if not any(any(True for _ in check(spec)) for spec in specs)]
    assert idle == []


@pytest.mark.parametrize("name", CASES["sentences"])
def test_sentences_say_what_to_change(name: str) -> None:
    for sentence in CASES["sentences"][name]:
        assert sentence in " ".join(map(str, lint(read(name, "spec.original.json"))))


def test_the_corrected_spec_has_no_error() -> None:
    findings = lint(read("gs1_vs_grpo"))
    assert Level.ERROR not in {finding.level for finding in findings}
    left = set(re.findall(r"\*\*(R-\w+)\*\*", (EXPERIMENTS / "gs1_vs_grpo" / "CHANGES.md").read_text()))
    assert {finding.rule for finding in findings if finding.level is Level.WARNING} == left
    assert [finding for finding in findings if finding.level is Level.QUESTION] == []


def test_every_change_of_the_corrected_spec_is_listed_with_its_reason() -> None:
    old, new = (read("gs1_vs_grpo", name).value for name in ("spec.original.json", "spec.json"))
    table = (EXPERIMENTS / "gs1_vs_grpo" / "CHANGES.md").read_text()
    assert sorted(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == sorted(differences(old, new))


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        both = [differences(old.get(key), new.get(key), f"{path}.{key}".strip(".")) for key in {**old, **new}]
        return [difference for found in both for difference in found]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        both = [differences(*pair, f"{path}[{index}]") for index, pair in enumerate(zip(old, new, strict=True))]
        return [difference for found in both for difference in found]
    return [] if old == new else [path]


def test_the_corrected_spec_pins_the_reference_beside_it() -> None:
    (path,) = json.loads(read("gs1_vs_grpo").raw)["correctness_preflight"]["paths"]
    digest = sha256((EXPERIMENTS / "gs1_vs_grpo" / "reference.py").read_bytes()).hexdigest()
    assert path["reference_revision"].endswith(digest)


def test_the_example_of_the_tutorial_has_no_error() -> None:
    assert Level.ERROR not in {finding.level for finding in lint(read("arithmetic"))}


def test_names_and_titles_establish_nothing() -> None:
    """R-088: words lead to questions alone."""
    features = dict.fromkeys(read("gs1_vs_grpo").features, False)
    words = "A custom loss with a custom optimizer on generated data, a learned generator, checkpoint_restore"
    plain = {"title": "t", "hypothesis": "h", "method": "m", "experiment_features": features, "arms": [{"name": "a"}]}
    loud = {**plain, "title": words, "hypothesis": words, "method": words, "arms": [{"name": "custom_loss"}]}
    new = set(lint(spec_of(loud))) - set(lint(spec_of(plain)))
    assert {(finding.level, finding.path) for finding in new} == {(Level.QUESTION, "method")}


@pytest.mark.parametrize("n", [3, 8, 40, 80])
@pytest.mark.parametrize("margin", [-0.95, -0.6, -0.05, 0, 0.3, 0.9])
def test_unfalsifiable_rules_are_those_that_no_table_settles(n: int, margin: float) -> None:
    """R-035, against every possible number of net wins."""
    value = json.loads(read("gs1_vs_grpo").raw)
    value["eval"]["n_examples"] = n
    value["decision_rule"]["criteria"][0]["margin"] = margin
    effects = [[float((net > 0) - (net < 0))] * abs(net) + [0.0] * (n - abs(net)) for net in range(-n, n + 1)]
    intervals = [paired_hoeffding(Sample(contrasts, Range(-1, 1)), 0.05) for contrasts in effects]
    states = {state_of(interval.lower, interval.upper, margin, None) for interval in intervals}
    errors = [str(finding) for finding in lint(spec_of(value)) if finding.level is Level.ERROR]
    assert ("supported" in "".join(errors)) is (CriterionState.PASS not in states)
    assert ("refuted" in "".join(errors)) is (CriterionState.FAIL not in states)


@pytest.mark.parametrize(("n", "odds"), [(1319, "1.3 %, if 16 % of items"), (50, "less than 0.1 %, if 16 % of items")])
def test_r037_says_how_probable_it_is_that_equal_arms_pass(n: int, odds: str) -> None:
    value = json.loads(read("gs1_vs_grpo", "spec.json").raw)
    value["eval"]["n_examples"] = n
    (text,) = [finding.text for finding in lint(spec_of(value)) if finding.rule == "R-037"]
    assert f"with probability {odds}" in text


@settings(max_examples=50, deadline=None)
@given(value=VALUES, data=st.data())
def test_any_json_can_be_linted(value: Any, data: st.DataObject) -> None:
    """Invariant (iv): no part of a spec makes lint raise, and it answers alike twice."""
    document = json.loads(read("gs1_vs_grpo", "spec.original.json").raw)
    where: Any = document
    while True:
        key = data.draw(st.sampled_from(list(where) if isinstance(where, dict) else range(len(where))))
        if isinstance(where[key], dict | list) and where[key] and data.draw(st.booleans()):
            where = where[key]
        else:
            break
    where[key] = value
    spec = Spec(json.dumps(document).encode(), document)
    assert lint(spec) == lint(spec)


def test_a_spec_that_is_wrong_throughout_gets_a_bounded_answer() -> None:
    arms = [{"name": "x", "lr_grid": [1], "seed": 9, "steps": 1} for _ in range(5_000)]
    value = json.loads(read("gs1_vs_grpo", "spec.original.json").raw)
    found = lint(spec_of({**value, "arms": arms}))
    assert sum(finding.rule == "R-152" for finding in found) == MAX_OF_A_CHECK


def test_the_fields_that_lint_knows_are_those_of_the_published_schema() -> None:
    """R-025; the Exchange's own projection is known as one that does not belong (R-022)."""
    schema = json.loads((Path(schemas.__file__).parent / "spec.json").read_bytes())
    assert {*schema["properties"], "feasibility_check"} == KNOWN_FIELDS


def test_the_page_names_every_rule_under_its_level() -> None:
    """`docs/reference/lint.md` against the calls in the code."""
    page = (ROOT / "docs" / "reference" / "lint.md").read_text()
    for level in Level:
        section = page.split(f"## {level.capitalize()}s\n")[1].split("\n## ")[0]
        rows = [row for row in section.splitlines() if row.startswith("| R-")]
        named = {rule for row in rows for rule in re.findall(r"R-\w+", row.split("|")[1])}
        assert named == {rule for lev, rule in rules_in_code() | HANDED_ON if lev == level}


def rules_in_code() -> set[tuple[str, str]]:
    """Level and rule of every finding that the package can make, as its calls state them."""
    found = set()
    for file in Path(lint_package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in list(Level):
                found.add((node.func.id, ast.literal_eval(node.args[0])))
    return found


def test_every_field_of_the_contract_is_a_known_one() -> None:
    """R-021, R-023: those that a seed spec shows, and those that the brief presupposes; R-025 notes all others."""
    shown = """experiment_features activation_gate restoration_preflight correctness_preflight decision_rule
        generation_audit primary_endpoint arms feasibility_required feasibility"""
    original = read("gs1_vs_grpo", "spec.original.json")
    assert set(shown.split()) <= original.value.keys()
    presupposed = {"preflight_probe": {"steps": 1}, "diagnostic_plan": {"max_wall_minutes": 10}}
    spec = json.loads(original.raw)
    spec["arms"][0]["lr_grid"] = [1e-5, 4e-5, 1e-4]
    spec["restoration_preflight"]["exact_replay"] = True
    spec["decision_rule"] |= {"kind": "weight_edit", "selection": {}}
    spec["decision_rule"]["criteria"][0]["tie_band"] = [-0.2, 0.2]
    spec["correctness_preflight"]["paths"][0]["lr_scaling"] = {"tolerance": 0.02}
    unread = {
        finding.path for finding in lint(spec_of({**spec, **presupposed, "mystery": 1})) if finding.rule == "R-025"
    }
    assert unread == {"mystery"}
