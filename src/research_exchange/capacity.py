"""Capacity: how long a refused run goes on asking, what stopped it, and whether it may start again (contract §18).

Nothing here waits or starts anything. A script keeps to `Patience` (`research_exchange.harness.capacity_clock` does); a
runner of the Exchange asks `requeue_decision` and does what it says; a run that has compared anything already waits for
a person, because starting again would choose among two attempts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, is_whole, show, show_names
from research_exchange.documents.gates import Flag, Problem, Provenance
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import OutcomeReason, RunState, RunStatus, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate

__all__ = [
    "BACKOFF_MINUTES",
    "Capacity",
    "CapacityBlock",
    "Cleanup",
    "Patience",
    "Refusals",
    "Requeue",
    "RequeueDecision",
    "check_capacity",
    "first_reading",
    "is_refusal",
    "requeue_decision",
    "wall_used",
]

BACKOFF_MINUTES = (15, 30, 60)
"""How long to wait before the first, second and third fresh session, which is the last (R-202)."""
LEAST_SHARE_LEFT = 0.25
"""Of the wall budget: what must be left where no measured projection says how much is needed (R-202)."""


@dataclass(frozen=True)
class Patience:
    """How long a run goes on asking a service that refuses it for want of capacity (R-201). All times are seconds."""

    pauses: tuple[float, ...] = (60, 120, 240)
    """Before the second, third and fourth attempt; the last one before every further attempt too."""
    before_comparison: float = 600
    """While no step of the comparison is done."""
    during_comparison: float = 1800
    """From its first step on."""
    quiet: float = 120
    """After so long without a refusal, what is being waited for is work and not capacity."""

    def limit(self, steps: int) -> float:
        """How long refusals may go on after `steps` steps of the comparison."""
        return self.during_comparison if steps > 0 else self.before_comparison

    def pause(self, attempts: int) -> float:
        """How long to wait after so many refused attempts, from 1."""
        return self.pauses[min(attempts, len(self.pauses)) - 1]


@dataclass
class Refusals:
    """One spell of refusals: it begins with the first one and is over when work is accepted or all is quiet."""

    patience: Patience
    since: float | None = None
    """When the spell began, on the caller's clock; None outside one."""
    last: float = 0.0
    error: str = ""
    """What the service answered last."""

    def refused(self, at: float, error: str) -> None:
        self.since = at if self.since is None else self.since
        self.last, self.error = at, error

    def over(self) -> None:
        self.since = None

    def lasted(self, at: float) -> float:
        """How long the spell has lasted; 0 outside one, which quiet ends."""
        if self.since is not None and at - self.last > self.patience.quiet:
            self.over()
        return 0.0 if self.since is None else at - self.since


_REFUSING_STATUSES = frozenset({429, 503})
_REFUSING_WORDS = "capacity exhausted"


def is_refusal(status: int | None, text: str = "") -> bool:
    """Whether an answer of a training service says that it has no capacity now (R-201)."""
    return status in _REFUSING_STATUSES or _REFUSING_WORDS in text.lower()


class Requeue(StrEnum):
    """What becomes of a run whose capacity was exhausted."""

    NOT_ASKED = "not_asked"
    """No capacity block: nothing to decide."""
    ELIGIBLE = "eligible"
    """It compared nothing yet and may start again by itself."""
    HUMAN = "human"
    """It is kept as a partial result; a person decides (R-202)."""
    REFUSED = "refused"
    """Malformed, contradicted, out of attempts or out of time."""


@dataclass(frozen=True)
class CapacityBlock:
    """`capacity_block` of a final update, well-formed (R-201)."""

    error: str
    comparison_steps_completed: int
    released_clients: bool


@dataclass(frozen=True)
class Cleanup:
    """What the runner says it stopped and left running (R-205)."""

    stopped: tuple[str, ...]
    remaining: tuple[str, ...]


@dataclass(frozen=True)
class Capacity:
    """What a run's updates say about capacity and cleaning up."""

    block: CapacityBlock | None
    """None where none was reported, or where it is malformed."""
    requeue: Requeue
    """As far as the updates alone say; attempts and time are the runner's to add."""
    reason: str
    cleanup: Cleanup | None
    """None: unknown."""
    problems: tuple[Problem, ...]
    flags: tuple[Flag, ...]
    provenance: Provenance = Provenance.DECLARED


@dataclass(frozen=True)
class RequeueDecision:
    """Whether a fresh session of the same run starts by itself, and when."""

    requeue: Requeue
    reason: str
    after: int | None = None
    """Minutes to wait first; None where none starts."""


def check_capacity(spec: Spec, state: RunState, updates: Sequence[StoredUpdate]) -> Capacity:
    """Reads the capacity block, the cleanup and the time that was used. Never raises."""
    block, problems = _block(state.capacity_block)
    problems += _contradictions(state, block)
    requeue, reason = _reading(state, block, problems)
    cleanup = _cleanup(state)
    return Capacity(
        block=block,
        requeue=requeue,
        reason=reason,
        cleanup=cleanup,
        problems=problems,
        flags=(
            *(Flag(problem.rule, state.final_update, str(problem)) for problem in problems),
            *_leaks(state, block, cleanup),
            *_overrun(spec, updates),
        ),
    )


def first_reading(state: RunState) -> tuple[Requeue, str]:
    """What becomes of a run as far as its state says, with one sentence; attempts and time are left to others."""
    block, problems = _block(state.capacity_block)
    return _reading(state, block, problems + _contradictions(state, block))


def requeue_decision(
    capacity: Capacity, *, requeues: int, budget: float, used: float, needed: float | None
) -> RequeueDecision:
    """Whether to start a fresh session (R-202). All times are wall minutes.

    Args:
        capacity: What the run's updates say.
        requeues: Fresh sessions that this run has been given so far.
        budget: `budget.max_wall_minutes` of the spec.
        used: By all sessions of the run together, the waiting between them left out.
        needed: The measured projection of the whole run; None where there is none.
    """
    if capacity.requeue is not Requeue.ELIGIBLE:
        return RequeueDecision(capacity.requeue, capacity.reason)
    if requeues >= len(BACKOFF_MINUTES):
        return RequeueDecision(Requeue.REFUSED, f"It was started again {requeues} times already, which is the most.")
    left = budget - used
    enough = left >= needed if needed is not None else left > LEAST_SHARE_LEFT * budget
    if not enough:
        wanted = "a quarter or less" if needed is None else f"less than the {needed:.1f} minutes that it takes"
        return RequeueDecision(Requeue.REFUSED, f"{left:.1f} of {budget:g} minutes are left: {wanted}.")
    after = BACKOFF_MINUTES[max(requeues, 0)]
    return RequeueDecision(Requeue.ELIGIBLE, f"A fresh session may start after {after} minutes.", after)


def wall_used(updates: Iterable[StoredUpdate]) -> timedelta:
    """From the first to the last update of each session, all sessions together (R-200).

    A lower bound: a session starts before its first update and may go on after its last.
    """
    ends: dict[str | None, list[StoredUpdate]] = {}
    for update in updates:
        ends.setdefault(update.session, []).append(update)
    spans = (
        max(each.received_at for each in session) - min(each.received_at for each in session)
        for session in ends.values()
    )
    return sum(spans, timedelta())


def _block(value: JsonValue) -> tuple[CapacityBlock | None, tuple[Problem, ...]]:
    if value is None:
        return None, ()
    fields = as_mapping(value)
    error, steps, released = (fields.get(name) for name in ("error", "comparison_steps_completed", "released_clients"))
    checks = (
        ("error", is_text(error), "the error that the service answered"),
        ("comparison_steps_completed", is_whole(steps) and steps >= 0, "a whole number from 0"),
        ("released_clients", isinstance(released, bool), "true or false"),
    )
    action = "Report the block as it was; a malformed one starts nothing again."
    problems = tuple(
        Problem("R-201", f"capacity_block.{name}", expected, show(fields.get(name)), action)
        for name, holds, expected in checks
        if not holds
    )
    if problems or not (is_text(error) and is_whole(steps) and isinstance(released, bool)):
        return None, problems
    return CapacityBlock(error, steps, released), ()


def _contradictions(state: RunState, block: CapacityBlock | None) -> tuple[Problem, ...]:
    """A block goes with a run that failed for want of a machine; a finished arm took steps (R-201, R-203)."""
    if state.capacity_block is None:
        return ()
    found = []
    wanted = (RunStatus.FAILED, Verdict.INCONCLUSIVE, OutcomeReason.INCOMPLETE_EXECUTION)
    reported = (state.status, state.verdict, state.outcome_reason)
    if reported != wanted:
        expected = "a run that failed, inconclusive, for incomplete_execution"
        said = ", ".join("nothing" if each is None else each.value for each in reported)
        action = "Include capacity_block only where capacity stopped the run."
        found.append(Problem("R-203", "capacity_block", expected, said, action))
    if block is not None and block.comparison_steps_completed == 0 and state.completed_comparison:
        path, expected = "capacity_block.comparison_steps_completed", "the steps of the arms that were completed"
        arms = show_names(tuple(state.completed_comparison))
        found.append(Problem("R-201", path, expected, f"0, although {arms} was completed", "Report the real count."))
    return tuple(found)


def _reading(state: RunState, block: CapacityBlock | None, problems: Sequence[Problem]) -> tuple[Requeue, str]:
    if state.capacity_block is None:
        return Requeue.NOT_ASKED, "Capacity did not stop this run, as far as it reports."
    if problems or block is None:
        return Requeue.REFUSED, "The capacity block is malformed or contradicts the rest of the report."
    if block.comparison_steps_completed > 0:
        steps = block.comparison_steps_completed
        return Requeue.HUMAN, f"It completed {steps} steps of the comparison and is kept as a partial result."
    return Requeue.ELIGIBLE, "It compared nothing yet, so it may start again."


def _cleanup(state: RunState) -> Cleanup | None:
    posted = state.latest("cleanup")
    fields = as_mapping(None if posted is None else posted.value)
    stopped, remaining = (_names(fields.get(name)) for name in ("stopped", "remaining"))
    return None if stopped is None or remaining is None else Cleanup(stopped, remaining)


def _names(value: JsonValue) -> tuple[str, ...] | None:
    names = tuple(name for name in as_list(value) if is_text(name))
    return names if isinstance(value, list) and len(names) == len(value) else None


def _leaks(state: RunState, block: CapacityBlock | None, cleanup: Cleanup | None) -> list[Flag]:
    flags = []
    if block is not None and not block.released_clients:
        text = "The run stopped for want of capacity and did not release its own clients."
        flags.append(Flag("R-202", state.final_update, text))
    if cleanup is not None and cleanup.remaining:
        text = f"The run reports that it left {show_names(cleanup.remaining)} running."
        flags.append(Flag("R-205", state.final_update, text))
    return flags


def _overrun(spec: Spec, updates: Sequence[StoredUpdate]) -> list[Flag]:
    minutes, used = spec.section("budget").get("max_wall_minutes"), wall_used(updates).total_seconds() / 60
    if not is_number(minutes) or used <= minutes:
        return []
    return [Flag("R-200", None, f"The run took at least {used:.1f} minutes; its budget is {minutes:g}.")]
