"""What every new spec must say: its claim, its budget, its ten features, and nothing that no rule reads."""

from collections.abc import Iterator

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, show, show_names
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import CHECKS, FEATURES, check_applicability
from research_exchange.lint.findings import Finding, error, warning

__all__ = ["KNOWN_FIELDS", "arms", "budget", "conflicts", "features", "fields", "texts"]

_TEXTS = {
    "title": "a title",
    "hypothesis": "the claim that the run tests",
    "method": "what each arm does",
    "base_model": "the model that the arms start from",
    "success_criterion": "what would settle the hypothesis, either way",
}
_BUDGET = {"gpu_hours": "GPU-hours", "max_wall_minutes": "minutes of wall time"}

KNOWN_FIELDS = frozenset(
    {
        *_TEXTS,
        "activation_gate",
        "arms",
        "baseline",
        "batch_size",
        "budget",
        "command",
        "correctness_preflight",
        "dataset",
        "decision_rule",
        "diagnostic_plan",
        "eval",
        "experiment_features",
        "feasibility",
        "feasibility_check",
        "feasibility_required",
        "generation_audit",
        "lora_rank",
        "max_seq_len",
        "optimizer",
        "preflight_probe",
        "primary_endpoint",
        "restoration_preflight",
        "steps",
        "training_type",
    }
)
"""The top-level fields that the contract names (R-020, R-021, R-023)."""


def texts(spec: Spec) -> Iterator[Finding]:
    """R-030."""
    for name, meaning in _TEXTS.items():
        if not is_text(spec.value.get(name)):
            yield error("R-030", name, f"Found {show(spec.value.get(name))}; write down {meaning}.")


def budget(spec: Spec) -> Iterator[Finding]:
    """R-030."""
    section = spec.section("budget")
    for name, meaning in _BUDGET.items():
        value = section.get(name)
        if not is_number(value) or value <= 0:
            text = f"Found {show(value)}; state the {meaning} that the run may use, as a number above 0."
            yield error("R-030", f"budget.{name}", text)


def features(spec: Spec) -> Iterator[Finding]:
    """R-031."""
    declared = spec.value.get("experiment_features")
    if not as_mapping(declared):
        text = f"Found {show(declared)}; declare all ten features, true or false: {', '.join(FEATURES)}."
        yield error("R-031", "experiment_features", text)
        return
    for name in FEATURES:
        value = spec.features.get(name)
        if not isinstance(value, bool):
            text = f"Found {show(value)}, which leaves every check that rests on it unknown; say true or false."
            yield error("R-031", f"experiment_features.{name}", text)
    for name in spec.features:
        if name not in FEATURES:
            text = f"No check rests on it; the ten features are {', '.join(FEATURES)}."
            yield warning("R-085", f"experiment_features.{name}", text)


def conflicts(spec: Spec) -> Iterator[Finding]:
    """R-086, R-087."""
    for name, check in CHECKS.items():
        answer = check_applicability(spec.value, name)
        if answer["conflict"]:
            text = f"The check is required: {answer['reason']} Make both say the same."
            path = f"{check.contract}.{check.flag}" if check.contract else f"experiment_features.{check.features[0]}"
            yield warning("R-086", path, text)
    if spec.features.get("learned_generator") is True and spec.features.get("generated_training_data") is False:
        text = "True, although generated_training_data is false; a learned generator makes training data, so say so."
        yield warning("R-087", "experiment_features.learned_generator", text)
    audit = spec.section("generation_audit")
    if audit and spec.features.get("generated_training_data") is False and audit.get("required") is not True:
        text = (
            "It has no effect: generated_training_data is false and the section asks for nothing. Remove it, so that "
            "nobody reads an audit into the brief."
        )
        yield warning("R-086", "generation_audit", text)


def fields(spec: Spec) -> Iterator[Finding]:
    """R-022, R-025."""
    if "feasibility_check" in spec.value:
        text = "The Exchange computes it and adds it to the brief; it is no part of a spec. Remove it."
        yield warning("R-022", "feasibility_check", text)
    for name in spec.value:
        if name not in KNOWN_FIELDS:
            text = "No rule reads this field; it is kept and shown. If it binds the runner, say it in method as well."
            yield warning("R-025", name, text)


def arms(spec: Spec) -> Iterator[Finding]:
    """R-008, R-036."""
    entries = as_list(spec.value.get("arms"))
    if not entries:
        text = (
            "No arm is named, so neither completed arms nor scores nor weights can be held against the spec. List each "
            'arm, with a role where a rule weighs it: {"name": ..., "role": "treatment"}.'
        )
        yield warning("R-008", "arms", text)
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = as_mapping(entry).get("name")
        if not is_text(name):
            yield error("R-036", f"arms[{index}].name", f"Found {show(name)}; give the arm a name.")
        elif name in seen:
            text = f"{show_names([name])} is taken by an earlier arm; one name means one arm everywhere."
            yield error("R-036", f"arms[{index}].name", text)
        else:
            seen.add(name)
