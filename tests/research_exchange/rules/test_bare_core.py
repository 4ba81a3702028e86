"""The rules run in a runner's session, where nothing but the interpreter may be installed (R-233).

Which modules are rules stands in one place: the import contract in pyproject.toml.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import research_exchange.judgment

SOURCE = Path(research_exchange.judgment.__file__).parents[1]
PROJECT = SOURCE.parent / "pyproject.toml"
CONTRACT = "The rules use the standard library alone"
OTHERS = {
    "cli",
    "client",
    "durable",
    "harness",
    "reports",
    "runner",
    "server",
    "store",
    "terminal",
    "web",
    "whereabouts",
}
"""What needs installed packages or looks at the machine: no rule may import it."""


def contract() -> list[str]:
    contracts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (modules,) = (entry["source_modules"] for entry in contracts if entry["name"] == CONTRACT)
    return [str(module) for module in modules]


def rule_modules() -> list[str]:
    """Every module under those of the contract, one that is run with `-m` included."""
    found = []
    for name in contract():
        place = SOURCE.joinpath(*name.split("."))
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        found += [".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for file in files]
    return [name for name in found if not name.endswith(".__main__")]


def imported_by(flags: list[str]) -> dict[str, list[str]]:
    """For each rule module, what importing it adds that is neither ours nor the standard library's."""
    code = f"""
import importlib, json, sys
sys.path.insert(0, {str(SOURCE)!r})
before, found = set(sys.modules), {{}}
for name in {rule_modules()!r}:
    importlib.import_module(name)
    new = set(sys.modules) - before
    tops = {{module.partition(".")[0] for module in new}}
    found[name] = sorted(tops - sys.stdlib_module_names - {{"research_exchange"}})
    found[name] += sorted(module for module in new if module.split(".")[1:2] and module.split(".")[1] in {OTHERS!r}
                          and module.startswith("research_exchange."))
    before |= new
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)
    imported: dict[str, list[str]] = json.loads(done.stdout)
    return imported


@pytest.mark.parametrize("flags", [["-I", "-S"], ["-I"]], ids=["nothing installed", "everything installed"])
def test_no_rule_imports_an_installed_package(flags: list[str]) -> None:
    """With everything installed, an import that is only tried would show."""
    imported = imported_by(flags)
    assert len(imported) > 30
    assert {name: modules for name, modules in imported.items() if modules} == {}


def test_every_module_is_a_rule_or_known_not_to_be_one() -> None:
    top = {path.stem for path in (SOURCE / "research_exchange").iterdir() if path.suffix in ("", ".py")}
    modules = {name for name in top if not name.startswith("_") and name.isidentifier()}
    assert modules == OTHERS | {name.split(".")[1] for name in contract()}


HELPERS = """
import json
from research_exchange.correctness import lr_scaling_error, parity_errors
from research_exchange.experiment_features import check_applicability
from research_exchange.generation_audit import answer_agreement, evaluation_overlap, select_sample, validate

tasks = [{"item_id": f"t{n}", "prompt": f"Add {n}.", "answer": n, "disposition": "accepted"} for n in range(8)]
evaluation = [{"item_id": "e0", "prompt": "add  3."}]
contract = {"required": True, "answer_comparison": "numeric_exact", "min_sample_size": 2}
print(json.dumps([
    parity_errors([[1, 2], [3]], [[1, 2], [3.5]]),
    lr_scaling_error([(1e-5, 2e-4), (1e-4, 2e-3), (1e-3, 2.1e-2)]),
    [task["item_id"] for task in select_sample(tasks, 2, 0)],
    answer_agreement(0.75, "3/4", "numeric_exact"),
    evaluation_overlap(tasks, evaluation)["overlap_count"],
    validate(None, contract, tasks=tasks, evaluation=evaluation, require_comparison=True)["status"],
    check_applicability({"experiment_features": {"custom_loss": True}}, "correctness_preflight")["status"],
]))
"""


def test_the_helpers_of_a_runner_are_called_by_their_names_with_nothing_installed() -> None:
    """R-230, R-231, R-232"""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{HELPERS}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    parity, *others = json.loads(done.stdout)
    assert (parity["max_abs_error"], parity["reference_max_abs"]) == (0.5, 3.5)
    assert others == [pytest.approx(0.05), ["t2", "t7"], True, 1, "failed", "required"]
