"""The settings a run was really made with, beside those of its spec: the same words for the same thing (R-080)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Spec

__all__ = ["SETTINGS", "Setting", "effective", "planned"]


@dataclass(frozen=True)
class Setting:
    """One setting that a spec fixes and a configuration repeats."""

    name: str
    """Where the spec has it."""
    deviation: str
    """The `deviations[].field` that a change of it is stated under."""
    words: tuple[str, ...]
    """Paths that a configuration may have it under, in order of preference."""


SETTINGS = (
    Setting("base_model", "model", ("base_model", "model", "model_name")),
    Setting("lora_rank", "model", ("lora_rank", "rank")),
    Setting("steps", "steps", ("steps", "max_steps")),
    Setting("batch_size", "effective_batch", ("batch_size", "effective_batch")),
    Setting("max_seq_len", "effective_batch", ("max_seq_len",)),
    Setting("optimizer.lr", "lr", ("optimizer.lr", "optimizer.learning_rate", "learning_rate", "lr")),
    Setting("dataset.name", "dataset", ("dataset.name", "dataset_name")),
    Setting("dataset.n_examples", "dataset", ("dataset.n_examples", "dataset_n_examples")),
    Setting("eval.n_examples", "evaluator", ("eval.n_examples", "eval_n_examples")),
)
"""Model, steps, batch, learning rate, data set and evaluation: what R-080 asks to be compared."""


def planned(spec: Spec, setting: Setting, arm: str | None) -> tuple[int | float | str, ...]:
    """The values that the spec allows, each arm's own first; empty where it fixes none.

    Args:
        arm: The arm that a configuration is about; None where it names none, so that any arm's own value will do.
    """
    values: list[JsonValue] = []
    for each in spec.arms:
        if arm in (None, each.name):
            values += [_first(each.value, setting.words)]
            values += as_list(each.value.get("lr_grid")) if setting.name == "optimizer.lr" else ()
    allowed = [value for value in values if is_number(value) or is_text(value)]
    general = _first(spec.value, (setting.name,))
    if general is not None and not (allowed and arm is not None):
        allowed.append(general)
    return tuple(dict.fromkeys(allowed))


def effective(config: Mapping[str, JsonValue], setting: Setting) -> int | float | str | None:
    """What a configuration says of a setting; None where it says nothing that can be compared."""
    return _first(config, setting.words)


def _first(fields: Mapping[str, JsonValue], paths: Sequence[str]) -> int | float | str | None:
    for path in paths:
        value: JsonValue = fields
        for step in path.split("."):
            value = as_mapping(value).get(step)
        if is_number(value) or is_text(value):
            return value
    return None
