"""The model that a service really has for a spec: its own, or the closest of the same family (R-081)."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import tinker

from research_exchange.harness.errors import HarnessError
from research_exchange.harness.service import rest_client

__all__ = ["ServedModel", "closest_model", "served_model"]

_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)\s*([BMbm])(?![A-Za-z0-9])")
_PER_UNIT = {"b": 1e9, "m": 1e6}


@dataclass(frozen=True)
class ServedModel:
    """What is trained instead of what was asked for; mostly the same."""

    wanted: str
    name: str

    @property
    def deviations(self) -> list[dict[str, str]]:
        """One where the model is another, for the `deviations` of a running update before training (R-076)."""
        if self.name == self.wanted:
            return []
        reason = f"The service does not serve {self.wanted}; this is the closest served model of its family."
        return [{"field": "model", "original": self.wanted, "effective": self.name, "reason": reason}]


def served_model(service: tinker.ServiceClient, wanted: str) -> ServedModel:
    """`wanted` if the service trains it, else the closest model of the same family that it trains.

    Raises:
        HarnessError: it trains none of the family.
    """
    capabilities = rest_client(service).get_server_capabilities().result()
    names = [
        model.model_name for model in capabilities.supported_models if getattr(model, "trainable", None) is not False
    ]
    return ServedModel(wanted, closest_model(wanted, [name for name in names if name]))


def closest_model(wanted: str, served: Sequence[str]) -> str:
    """The served name that is nearest: the model itself, else of its family by variant, then by size.

    A family is what a name says before its size, whoever publishes it: Qwen/Qwen3.5-0.8B and Qwen/Qwen3.5-2B are one,
    Qwen/Qwen3-0.6B is another. The same variant (Instruct, Base) goes before a nearer size; sizes are compared by
    their ratio.

    Raises:
        HarnessError: no served model is of the family.
    """
    if wanted in served:
        return wanted
    target = _Name.of(wanted)
    family = [name for name in served if _Name.of(name).family == target.family]
    if not family:
        has = ", ".join(sorted(served)) or "none"
        raise HarnessError(f"The service serves no model of the family of {wanted}; it serves {has}.")
    return min(family, key=lambda name: (*_Name.of(name).distance(target), name))


@dataclass(frozen=True)
class _Name:
    family: str
    size: float | None
    """Parameters, by the name."""
    variant: str

    @classmethod
    def of(cls, name: str) -> "_Name":
        model = name.split("/")[1] if "/" in name else name
        found = _SIZE.search(model)
        if found is None:
            return cls(model.casefold(), None, "")
        family, variant = model[: found.start()], model[found.end() :]
        size = float(found[1]) * _PER_UNIT[found[2].casefold()]
        return cls(family.rstrip("-_ ").casefold(), size, variant.strip("-_ ").casefold())

    def distance(self, other: "_Name") -> tuple[bool, float]:
        if self.size is None or other.size is None:
            return self.variant != other.variant, math.inf
        return self.variant != other.variant, abs(math.log(self.size / other.size))
