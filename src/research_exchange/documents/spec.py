"""An experiment spec: the immutable document that alone defines hypothesis, methods and criterion (R-002, R-020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from research_exchange.documents.fields import as_list, as_mapping, is_text, is_whole, show
from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["BASE_ARM", "Arm", "Spec"]

BASE_ARM = "base"
"""The reserved arm name of the untouched base model (R-069)."""


@dataclass(frozen=True)
class Arm:
    """One side of a comparison."""

    name: str
    role: str | None
    """What a decision rule's weights may call it: `treatment`, `baseline` (R-14C)."""
    value: Mapping[str, JsonValue]
    """The arm as the spec writes it."""

    @property
    def is_trained(self) -> bool | None:
        """Whether it takes steps, as far as the spec says so: by its `steps`, or by `frozen: true`."""
        steps = self.value.get("steps")
        if self.value.get("frozen") is True or self.name == BASE_ARM:
            return False
        return steps > 0 if is_whole(steps) else None


@dataclass(frozen=True)
class Spec:
    """A parsed spec. Unknown fields are kept (R-025), and a spec without `experiment_features` stays valid (R-026)."""

    raw: bytes
    """The bytes as saved; the hash is taken over them."""
    value: Mapping[str, JsonValue]
    """The parsed document, key order kept."""

    @classmethod
    def parse(cls, raw: bytes) -> "Spec":
        """Reads a spec.

        Raises:
            DocumentError: if the bytes are not strict JSON, not an object, or have no title.
        """
        value = parse(raw)
        if not isinstance(value, dict):
            raise DocumentError(f"A spec is a JSON object; this is {show(value)}.")
        if not is_text(value.get("title")):
            raise DocumentError(f"A spec has a title, a non-empty string; found {show(value.get('title'))}.")
        return cls(raw=raw, value=value)

    @cached_property
    def sha256(self) -> str:
        return sha256(self.raw).hexdigest()

    @property
    def title(self) -> str:
        return str(self.value["title"])

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that carry a name; a later entry with a name already taken is left out."""
        found: dict[str, Arm] = {}
        for entry in as_list(self.value.get("arms")):
            arm = as_mapping(entry)
            name, role = arm.get("name"), arm.get("role")
            if is_text(name) and name not in found:
                found[name] = Arm(name, role if is_text(role) else None, arm)
        return tuple(found.values())

    @property
    def arm_names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    def arms_called(self, key: str) -> tuple[str, ...]:
        """The arm of that name; where there is none, those with that role (R-14C). A good key finds exactly one."""
        return self._called.get(key, ())

    @cached_property
    def _called(self) -> Mapping[str, tuple[str, ...]]:
        roles: dict[str, list[str]] = {}
        for arm in self.arms:
            if arm.role is not None:
                roles.setdefault(arm.role, []).append(arm.name)
        return {**{role: tuple(names) for role, names in roles.items()}, **{name: (name,) for name in self.arm_names}}

    @property
    def features(self) -> Mapping[str, JsonValue]:
        """The declared `experiment_features`, empty where there are none."""
        return as_mapping(self.value.get("experiment_features"))

    @property
    def is_legacy(self) -> bool:
        """Written before features were declared; such a spec leaves every check unknown (R-212)."""
        return "experiment_features" not in self.value

    def section(self, name: str) -> Mapping[str, JsonValue]:
        """One part of the spec, such as `activation_gate`; empty where it is absent or not an object."""
        return as_mapping(self.value.get(name))
