"""The settings that a spec's `command` names: flags, keyword arguments, JSON keys. Nothing is run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from research_exchange.documents.spec import Spec

__all__ = ["ADAM_DEFAULTS", "ALIASES", "Command", "number"]

ADAM_DEFAULTS: Mapping[str, float] = {
    "learning_rate": 1e-4,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-12,
    "weight_decay": 0.0,
    "grad_clip_norm": 0.0,
}
"""What `tinker.AdamParams` of SDK 0.38 applies where a call leaves a setting out."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "base_model": ("base_model", "model", "model_name"),
    "batch_size": ("batch_size", "rollouts_per_step"),
    "learning_rate": ("learning_rate", "lr"),
    "lora_rank": ("lora_rank", "rank"),
    "seed": ("seed",),
    "steps": ("steps", "max_steps", "num_steps", "n_steps"),
}
"""A setting's name in a spec to what scripts call it, in lower case."""

_LONGEST_READ = 100_000
"""Characters of a text that are looked at."""
_FLAG = re.compile(r"(?<![\w-])--?([A-Za-z][\w-]{0,60})[= ]+([^\s,;)&|=]{1,120})")
_KEYWORD = re.compile(r"(?<![\w-])([A-Za-z_]\w{0,60})=([^\s,;)&|=]{1,120})")
_JSON_KEY = re.compile(r"['\"](\w{1,60})['\"] ?: ?([^\s,}]{1,120})")
_ADAM_CALL = re.compile(r"AdamParams\(([^()]{0,2000})\)")


@dataclass(frozen=True)
class Command:
    """A command as text; the values that it spells out are read, variables and placeholders are not guessed."""

    text: str

    @classmethod
    def of(cls, spec: Spec) -> "Command":
        value = spec.value.get("command")
        return cls(value[:_LONGEST_READ] if isinstance(value, str) else "")

    @cached_property
    def settings(self) -> Mapping[str, tuple[str, ...]]:
        """Every value of each setting, by name in lower case with underscores."""
        found: dict[str, list[str]] = {}
        for pattern in (_FLAG, _KEYWORD, _JSON_KEY):
            for name, value in pattern.findall(self.text):
                found.setdefault(name.lower().replace("-", "_"), []).append(value.strip("'\""))
        return {name: tuple(dict.fromkeys(values)) for name, values in found.items()}

    def values(self, setting: str) -> tuple[str, ...]:
        """What the command spells out for a setting, under any of its names."""
        names = ALIASES.get(setting, (setting,))
        return tuple(dict.fromkeys(value for name in names for value in self.settings.get(name, ())))

    def numbers(self, setting: str) -> tuple[float, ...]:
        """Those of `values` that are numbers."""
        read = [number(value) for value in self.values(setting)]
        return tuple(value for value in read if value is not None)

    @property
    def calls_adam(self) -> bool:
        """Whether it shows a call of `AdamParams`, whose defaults are known."""
        return _ADAM_CALL.search(self.text) is not None


def number(text: str) -> float | None:
    """The number that a short text is, if it is one."""
    return float(text) if re.fullmatch(r"[-+]?(\d{1,20}\.?\d{0,20}|\.\d{1,20})([eE][-+]?\d{1,2})?", text) else None
