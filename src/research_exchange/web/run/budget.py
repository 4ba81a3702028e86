"""What the run was projected to take, beside what it may take (R-172, R-178)."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.documents.fields import as_list, as_mapping, is_number
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec


@dataclass(frozen=True)
class Share:
    """A projection against its limit."""

    name: str
    unit: str
    projected: float | None
    """None where it is not known in full."""
    limit: float | None
    """None where the budget names none."""

    @property
    def percent(self) -> float | None:
        if self.projected is None or not self.limit:
            return None
        return min(100.0, 100 * self.projected / self.limit)

    @property
    def is_over(self) -> bool:
        return self.projected is not None and self.limit is not None and self.projected > self.limit


@dataclass(frozen=True)
class Budget:
    update: int | None
    """The report with the timings; None where the spec itself holds them, or nothing was measured."""
    status: str
    shares: tuple[Share, ...]
    phases: Mapping[str, float]
    """Projected minutes of each phase."""
    problems: tuple[str, ...]
    is_asked_for: bool


def budget(spec: Spec, state: RunState, feasibility: Mapping[str, JsonValue]) -> Budget | None:
    """None where the spec has no budget and nothing was measured."""
    posted, limits = state.latest("feasibility"), spec.section("budget")
    asked = spec.value.get("feasibility_required") is True
    if posted is None and not limits and not asked:
        return None
    seconds, hours = feasibility.get("wall_seconds"), feasibility.get("gpu_hours")
    return Budget(
        update=None if posted is None else posted.update,
        status=str(feasibility.get("status")),
        shares=(
            Share("Wall time", "minutes", _scaled(seconds, 1 / 60), _scaled(limits.get("max_wall_minutes"))),
            Share("GPU time", "hours", _scaled(hours), _scaled(limits.get("gpu_hours"))),
        ),
        phases={
            name: seconds / 60 for name, seconds in as_mapping(feasibility.get("phases")).items() if is_number(seconds)
        },
        problems=tuple(map(str, as_list(feasibility.get("problems")))),
        is_asked_for=asked,
    )


def _scaled(value: JsonValue, factor: float = 1.0) -> float | None:
    return value * factor if is_number(value) else None
