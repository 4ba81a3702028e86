"""The published schemas say what the definitions say, name all that the rules read, and fit what the rules accept."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import FEATURES
from research_exchange.schemas import SCHEMAS, schema_text
from research_exchange.schemas.published import written_schemas
from research_exchange.updates import PARTS
from tests.research_exchange.rules.honest_run import honest_run
from tests.research_exchange.rules.support import judge_bundle, patched, vectors
from tests.research_exchange.rules.test_gate_pages import EXAMPLES
from tests.research_exchange.schemas.validation import faults

ROOT = Path(__file__).parents[3]
SPECS = sorted(ROOT.glob("experiments/*/spec*.json"))
FLAGS = {"original_hypothesis_tested", "tested_instead"}
"""Parts of an update that are no object and no list."""


def schema(name: str) -> Any:
    return json.loads(schema_text(name))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_is_what_its_definition_says(name: str) -> None:
    assert schema_text(name) == written_schemas()[name], "run `python -m research_exchange.schemas`"


def test_every_file_is_published() -> None:
    stored = {entry.name.removesuffix(".json") for entry in files("research_exchange.schemas").iterdir()}
    assert {name for name in stored if "." not in name and not name.startswith("_")} == set(SCHEMAS)


def test_every_part_of_an_update_has_a_schema() -> None:
    assert set(PARTS) <= schema("update")["properties"].keys()
    described = {name for name in PARTS if name in SCHEMAS}
    assert set(PARTS) - FLAGS - {"cleanup"} == described


def test_the_features_are_those_of_the_rules() -> None:
    definition = schema("spec")["$defs"]["ExperimentFeatures"]
    assert list(definition["properties"]) == definition["required"] == list(FEATURES)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_specs_of_the_experiments_have_the_shape(path: Path) -> None:
    assert list(faults(json.loads(path.read_text()), schema("spec"))) == []


def test_a_sound_run_has_the_shape_of_its_parts() -> None:
    base = vectors("runs")["base"]
    assert list(faults(base, schema("run_document"))) == []
    for update in base["updates"]:
        assert list(faults(update, schema("update"))) == []
        for part in update.keys() & SCHEMAS.keys():
            assert list(faults(update[part], schema(part))) == []


def test_every_judgment_has_the_published_shape() -> None:
    """Those of sound runs, and of all that the contract's tables refuse."""
    shape, runs = schema("judgment"), vectors("runs")
    for case in runs["cases"]:
        judgment = judge_bundle(patched(runs["base"], case["patch"])).to_json()
        assert list(faults(judgment, shape)) == [], case["name"]
        assert judgment.keys() == shape["properties"].keys()


def test_the_honest_run_has_the_shape_and_so_has_its_judgment() -> None:
    run = honest_run()
    assert list(faults(run, schema("run_document"))) == []
    assert list(faults(judge_bundle(run).to_json(), schema("judgment"))) == []


ACCEPTED = [example for example in EXAMPLES if example.rule is None]


@pytest.mark.parametrize("example", ACCEPTED, ids=lambda example: f"{example.gate}-{example.number}")
def test_what_the_gates_accept_has_the_shape_of_its_parts(example: Any) -> None:
    """The examples are cut to what concerns their gate, so their spec is not a whole one."""
    document = json.loads(example.text)
    spec = schema("spec")
    wrong = [fault for fault in faults(document["spec"], spec) if ": lacks " not in fault]
    assert wrong == []
    for update in document["updates"]:
        assert list(faults(update, schema("update"))) == []


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("spec", {}, "$: lacks ['title',"),
        ("spec", {"budget": {"gpu_hours": True, "max_wall_minutes": 1}}, "$.budget.gpu_hours: is no number"),
        ("spec", {"budget": {"gpu_hours": 1, "max_wall_minutes": 0}}, "$.budget.max_wall_minutes: exclusiveMinimum 0"),
        ("update", {"status": "done"}, "$.status: is none of"),
        ("update", {"status": "running", "metrics": {"x": "1"}}, "$.metrics.x: is no number"),
        ("update", {"status": "running", "metrics": {"arms": {"a": {"x": None}}}}, "$.metrics.arms.a.x: is no number"),
        ("update", {"status": "running", "verdict": "yes"}, "$.verdict: is none of"),
        ("deviations", [{"field": "lr"}], "$[0].field: is none of"),
        ("evaluation", {"version": True}, "$.version: is not 1"),
        ("decision", {"version": 1, "observations": [{"value": "1"}]}, "$.observations[0].value: is no number"),
        ("generation_audit", {"stage": "after_training"}, "$.stage: is not before_training"),
        ("run_document", {"spec": 1}, "$.spec: is no"),
    ],
)
def test_what_has_another_shape_is_told(name: str, value: Any, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(value, schema(name))), list(faults(value, schema(name)))


def property_names(value: Any) -> set[str]:
    """Of everything in a schema that has named properties."""
    if isinstance(value, list):
        return {name for entry in value for name in property_names(entry)}
    if not isinstance(value, dict):
        return set()
    own = set(value.get("properties", {}))
    return own.union(*(property_names(entry) for entry in value.values()))


@pytest.mark.parametrize("page", sorted((ROOT / "docs/reference/gates").glob("*.md")), ids=lambda page: page.stem)
def test_the_fields_of_a_gate_page_are_in_the_schemas(page: Path) -> None:
    known = property_names(schema("spec")) | property_names(schema("update"))
    cells = re.findall(r"^\| (`[^|]+?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = [code for cell in cells for code in re.findall(r"`([\w.\[\]*]+)`", cell)]
    assert {field for code in named for field in re.findall(r"\w+", code)} - known == set()


def test_a_spec_with_the_shape_is_a_spec() -> None:
    needed = dict.fromkeys(schema("spec")["required"], "x") | {"budget": {"gpu_hours": 0, "max_wall_minutes": 1}}
    assert list(faults(needed, schema("spec"))) == []
    assert Spec.parse(json.dumps(needed).encode()).title == "x"
