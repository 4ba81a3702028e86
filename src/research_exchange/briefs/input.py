"""What a brief is rendered from (R-051)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.briefs.profiles import ServiceProfile
from research_exchange.briefs.texts import fill
from research_exchange.documents.idea import IdeaContext
from research_exchange.documents.json import JsonValue
from research_exchange.documents.launch import LaunchMode
from research_exchange.documents.spec import Spec

__all__ = ["BriefInput"]

_PREFIX = {"spec_id": "exp_", "run_id": "run_"}


@dataclass(frozen=True)
class BriefInput:
    """Everything that decides the bytes of a brief.

    Raises:
        ValueError: for an id of another form, and where a check that the spec requires was not handed over.
    """

    spec: Spec
    spec_id: str
    """`exp_` + 10 lowercase hex (R-002)."""
    run_id: str
    """`run_` + 10 lowercase hex (R-004)."""
    launch_mode: LaunchMode
    profile: ServiceProfile
    """The service that the run trains on (R-056)."""
    context: IdeaContext | None = None
    """What was known about the idea when the version was saved; None for a version older than snapshots (R-003)."""
    feasibility_check: Mapping[str, JsonValue] | None = None
    """As computed by the Exchange; needed for a spec with `feasibility_required` (R-022)."""

    def __post_init__(self) -> None:
        for name, prefix in _PREFIX.items():
            given = getattr(self, name)
            if re.fullmatch(f"{prefix}[0-9a-f]{{10}}", given) is None:
                raise ValueError(f"A {name} is {prefix} and 10 lowercase hexadecimal digits; found {given!r}.")
        if self.requires_feasibility and self.feasibility_check is None:
            raise ValueError("The spec requires feasibility, so its computed feasibility_check belongs to the brief.")

    def fill(self, text: str, **values: str) -> str:
        """A text with its names filled in; the run's id and the service's short name are always among them."""
        return fill(text, run_id=self.run_id, short=self.profile.short, **values)

    @property
    def requires_feasibility(self) -> bool:
        return self.spec.value.get("feasibility_required") is True
