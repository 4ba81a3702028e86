"""One setting, said in several places: the spec's fields, its arms, its restoration plan and its command must agree."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, is_whole, show
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Arm, Spec
from research_exchange.lint.command import ADAM_DEFAULTS, ALIASES, Command, number
from research_exchange.lint.findings import Finding, warning

__all__ = [
    "batches",
    "command_settings",
    "learning_rates",
    "optimizer_configs",
    "optimizer_families",
    "prompts",
    "seeds",
    "steps",
]

_NO_OPTIMIZER_SETTINGS = frozenset(
    {
        *("base_model", "model", "lora_rank", "rank", "lora_alpha", "init_seed", "seed"),
        *("batch_size", "group_size", "groups_per_batch", "max_seq_len", "max_tokens", "steps", "temperature"),
    }
)
"""What describes an adapter or a run, under the names that specs use."""
_UNREADABLE = frozenset("$<>{}[]()…")
"""Characters of a variable or a placeholder, which lint does not guess."""


def command_settings(spec: Spec) -> Iterator[Finding]:
    """R-040: what the command spells out, against the fields of the spec."""
    command = Command.of(spec)
    for name in ("lora_rank", "steps", "batch_size"):
        value = spec.value.get(name)
        others = [found for found in command.numbers(name) if found != value]
        if is_number(value) and others:
            yield _mismatch(name, show(value), f"{_called(command, name)} to {show(others[0])}")
    model = spec.value.get("base_model")
    models = [value for value in command.values("base_model") if _is_literal(value)]
    if is_text(model) and models and model not in models:
        yield _mismatch("base_model", show(model), f"{_called(command, 'base_model')} to {show(models[0])}")


def steps(spec: Spec) -> Iterator[Finding]:
    """R-040: an arm that trains for another number of steps than the spec."""
    planned = spec.value.get("steps")
    for index, arm in _entries(spec):
        own = arm.get("steps")
        if is_whole(own) and is_whole(planned) and own != planned:
            yield _mismatch(f"arms[{index}].steps", show(own), f"steps says {show(planned)}", "the spec's")


def batches(spec: Spec) -> Iterator[Finding]:
    """R-024: the effective batch is sequences per optimizer step."""
    planned = spec.value.get("batch_size")
    for index, arm in _entries(spec):
        groups, size = arm.get("groups_per_batch"), arm.get("group_size")
        if is_whole(planned) and is_whole(groups) and is_whole(size) and groups * size != planned:
            text = (
                f"{groups} groups of {size} are {groups * size} sequences per step, but batch_size is {planned}. Make "
                "them agree; batch_size counts the sequences of one optimizer step."
            )
            yield warning("R-024", f"arms[{index}]", text)


def prompts(spec: Spec) -> Iterator[Finding]:
    """R-040 and R-180: how many prompts each arm reads, against the dataset and against the other arms."""
    reads = [(arm.name, count) for arm in spec.arms if (count := _prompts_read(spec, arm)) is not None]
    counts = sorted({count for _, count in reads})
    size = spec.section("dataset").get("n_examples")
    said = " and ".join(f"{show(name)} {count}" for name, count in reads[:4])
    if counts and is_whole(size) and size not in counts:
        text = (
            f"It says {size}, while in all their steps the arms read this many prompts: {said}. State the number that "
            "the run uses, so that its cost can be projected."
        )
        yield warning("R-040", "dataset.n_examples", text)
    if len(counts) > 1 and spec.features.get("paired_training_arms") is True:
        text = (
            f"The arms are paired but read different numbers of prompts ({said}), so they cannot train on the same "
            "batches in the same order: no pairing by batch applies, only by evaluation item. Say so in method, and "
            "expect the difference in data to be part of the effect."
        )
        yield warning("R-180", "arms", text)


def seeds(spec: Spec) -> Iterator[Finding]:
    """R-143: the seeds of arms and command, against the rule's schedule."""
    schedule = [seed for seed in as_list(spec.section("decision_rule").get("seeds")) if is_whole(seed)]
    if not schedule:
        return
    for index, arm in _entries(spec):
        seed = arm.get("seed")
        if is_whole(seed) and seed not in schedule:
            yield _mismatch(f"arms[{index}].seed", show(seed), "decision_rule.seeds does not schedule it", "the rule's")
    for seed in Command.of(spec).numbers("seed"):
        if seed not in schedule:
            found = f"the command also trains seed {show(seed)}, whose rows the rule refuses"
            yield _mismatch("decision_rule.seeds", ", ".join(map(show, schedule[:5])), found)


def learning_rates(spec: Spec) -> Iterator[Finding]:
    """R-040."""
    planned = spec.section("optimizer").get("lr")
    entries = list(_entries(spec))
    for index, arm in entries:
        own = arm.get("lr")
        if is_number(own) and is_number(planned) and own != planned and "lr_grid" not in arm:
            yield _mismatch(f"arms[{index}].lr", show(own), f"optimizer.lr says {show(planned)}", "the optimizer's")
    grids = [rate for _, arm in entries for rate in as_list(arm.get("lr_grid"))]
    declared = [planned, *(arm.get("lr") for _, arm in entries), *grids]
    command = Command.of(spec)
    others = [rate for rate in command.numbers("learning_rate") if rate not in declared]
    if is_number(planned) and others:
        found = f"{_called(command, 'learning_rate')} to {show(others[0])}"
        yield _mismatch("optimizer.lr", show(planned), found)


@dataclass(frozen=True)
class _Planned:
    """One arm of the restoration plan."""

    path: str
    value: Mapping[str, JsonValue]


def optimizer_families(spec: Spec) -> Iterator[Finding]:
    """R-040: an arm that asks for another family than the spec, though no optimizer is custom."""
    name = spec.section("optimizer").get("name")
    if spec.features.get("custom_optimizer") is True or not is_text(name):
        return
    for arm in _planned(spec):
        own = arm.value.get("optimizer")
        if is_text(own) and own.lower() != name.lower():
            yield _mismatch(f"{arm.path}.optimizer", show(own), f"optimizer.name says {show(name)}", "the spec's")


def optimizer_configs(spec: Spec) -> Iterator[Finding]:
    """R-039: what the restoration plan asks of an optimizer, against what the command gives it."""
    command = Command.of(spec)
    for arm in _planned(spec):
        for key, value in as_mapping(arm.value.get("optimizer_config")).items():
            path = f"{arm.path}.optimizer_config.{key}"
            if key in _NO_OPTIMIZER_SETTINGS:
                text = (
                    "It is no setting of an optimizer, so no optimizer can report it and the check of this key stays "
                    "unverified. Move it to the arm."
                )
                yield warning("R-039", path, text)
            elif is_number(value) and (found := _given(command, key, value)):
                text = (
                    f"The plan asks for {show(value)}, but {found}. An honest report of the optimizer would then fail "
                    f"the check: set {key}={show(value)} in the command, or ask for what it applies."
                )
                yield warning("R-039", path, text)


def _planned(spec: Spec) -> Iterator[_Planned]:
    for g, group in enumerate(as_list(spec.section("restoration_preflight").get("groups"))):
        for a, arm in enumerate(as_list(as_mapping(group).get("arms"))):
            yield _Planned(f"restoration_preflight.groups[{g}].arms[{a}]", as_mapping(arm))


def _given(command: Command, key: str, value: float) -> str | None:
    """How the command contradicts a setting or leaves it out; None where it agrees."""
    given = command.numbers(key)
    if given:
        return None if value in given else f"the command sets {show(given[0])}"
    if ADAM_DEFAULTS.get(key) == value:
        return None
    if command.calls_adam and key in ADAM_DEFAULTS:
        return f"the command leaves it to AdamParams, whose default is {ADAM_DEFAULTS[key]}"
    return "the command does not set it"


def _entries(spec: Spec) -> Iterator[tuple[int, Mapping[str, JsonValue]]]:
    for index, entry in enumerate(as_list(spec.value.get("arms"))):
        yield index, as_mapping(entry)


def _prompts_read(spec: Spec, arm: Arm) -> int | None:
    """Prompts that an arm reads in all its steps, where the spec says enough to know."""
    groups, size = arm.value.get("groups_per_batch"), arm.value.get("group_size")
    batch, steps = spec.value.get("batch_size"), arm.value.get("steps", spec.value.get("steps"))
    if groups is None and is_whole(batch) and is_whole(size) and size > 0:
        groups = batch // size
    return groups * steps if is_whole(groups) and is_whole(steps) else None


def _called(command: Command, setting: str) -> str:
    """`the command sets lr`: in the name that the command uses."""
    name = next(name for name in ALIASES[setting] if name in command.settings)
    return f"the command sets {name}"


def _is_literal(value: str) -> bool:
    return number(value) is None and not _UNREADABLE & set(value) and any(c.isalnum() for c in value)


def _mismatch(path: str, value: str, found: str, right: str = "one of them") -> Finding:
    keep = "correct one of them" if right == "one of them" else f"correct it or {right}"
    return warning("R-040", path, f"It is {value}, but {found}. The two must agree: {keep}.")
