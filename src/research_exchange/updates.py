"""The append-only fold: what a run's updates say together (contract §5).

No update is ever refused for what it says. What cannot be used is left out of the state and flagged; what was
posted once stays visible for ever (R-065). A final update ends a run, but for one: where want of capacity stopped it,
a later session of the same run goes on (R-202).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from research_exchange.capacity import Requeue, first_reading
from research_exchange.documents.fields import as_list, as_mapping, is_number, show
from research_exchange.documents.gates import Flag
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import (
    MetricHistory,
    MetricValue,
    OutcomeReason,
    Posted,
    RunState,
    RunStatus,
    Verdict,
)
from research_exchange.documents.spec import BASE_ARM, Spec
from research_exchange.documents.update import StoredUpdate

__all__ = ["PARTS", "Folding", "fold"]

PARTS = (
    "deviations",
    "original_hypothesis_tested",
    "tested_instead",
    "initialization_provenance",
    "correctness_preflight",
    "activation_calibration",
    "evaluation",
    "decision",
    "evidence",
    "feasibility",
    "adaptation_manifests",
    "generation_audit",
    "cleanup",
)
"""The structured parts of an update (R-060, R-205); `null` is the same as leaving one out."""

MAX_FLAGS = 50
"""Of one update; one that is odd throughout needs no sentence for each oddity."""

_SENTENCES = 2
_Choice = TypeVar("_Choice", bound=StrEnum)


def fold(spec: Spec, updates: Sequence[StoredUpdate]) -> RunState:
    """The state after all updates, in order of their sequence numbers. Never raises on what they contain."""
    folding = Folding.of(spec)
    for update in sorted(updates, key=lambda update: update.sequence):
        folding.add(update)
    return folding.state()


@dataclass
class Folding:
    """The fold while it runs: it takes updates in the order of their numbers, and knows the state after each."""

    known_arms: frozenset[str] | None
    """None for a spec that declares no arms: then no name is unknown."""
    status: RunStatus = RunStatus.RUNNING
    final_update: int | None = None
    last_update: int = 0
    summary: str | None = None
    verdict: Verdict | None = None
    outcome_reason: OutcomeReason | None = None
    capacity_block: JsonValue = None
    metrics: dict[str, list[MetricValue]] = field(default_factory=dict)
    arms: dict[str, dict[str, list[MetricValue]]] = field(default_factory=dict)
    completed_arms: dict[str, int] = field(default_factory=dict)
    posted: dict[str, list[Posted]] = field(default_factory=dict)
    flags: list[Flag] = field(default_factory=list)
    flags_of_update: int = 0
    said: set[str] = field(default_factory=set)
    """What every update would repeat, and what one flag says well enough."""
    sessions: set[str | None] = field(default_factory=set)
    """That updates came from, up to the final one."""

    @classmethod
    def of(cls, spec: Spec) -> "Folding":
        """Before the first update of a run."""
        return cls(known_arms=frozenset(spec.arm_names) | {BASE_ARM} if spec.arms else None)

    def state(self) -> RunState:
        """What stands now; what is added later does not change it."""
        return RunState(
            status=self.status,
            final_update=self.final_update,
            last_update=self.last_update,
            summary=self.summary,
            verdict=self.verdict,
            outcome_reason=self.outcome_reason,
            capacity_block=self.capacity_block,
            metrics=_histories(self.metrics),
            arms={arm: _histories(metrics) for arm, metrics in self.arms.items()},
            completed_arms=dict(self.completed_arms),
            posted={part: tuple(history) for part, history in self.posted.items()},
            flags=tuple(self.flags),
        )

    def add(self, update: StoredUpdate) -> tuple[Flag, ...]:
        """Take in the next update. Returns what is odd about it."""
        before = len(self.flags)
        self._add(update)
        return tuple(self.flags[before:])

    def _add(self, update: StoredUpdate) -> None:
        self.last_update = update.sequence
        self.flags_of_update = 0
        body = update.body
        if body is None:
            self._flag("R-06A", f"is malformed and says nothing: {update.malformed}")
            return
        if self._starts_again(update):
            self._go_on()
        if self.final_update is not None:
            self._flag("R-070", f"came after the final update {self.final_update}; it is kept and changes nothing.")
        else:
            self.sessions.add(update.session)
            self._add_summary(body)
            self._add_metrics(body)
            self._add_completed_arms(body)
            self._add_parts(body)
            self._add_status(body)

    def _starts_again(self, update: StoredUpdate) -> bool:
        """Whether an update comes from a fresh session of a run that want of capacity had stopped (R-202)."""
        if self.final_update is None or self.capacity_block is None:
            return False
        if update.session is None or update.session in self.sessions:
            return False
        requeue, _ = first_reading(self.state())
        return requeue in (Requeue.ELIGIBLE, Requeue.HUMAN)

    def _go_on(self) -> None:
        """Take up the run where capacity stopped it. The final update stays on record and no longer ends anything."""
        self._flag(
            "R-202", f"goes on in a fresh session after the final update {self.final_update}, for want of capacity."
        )
        self.status = RunStatus.RUNNING
        self.final_update = self.verdict = self.outcome_reason = self.capacity_block = None

    def _add_status(self, body: Mapping[str, JsonValue]) -> None:
        status = self._choice(RunStatus, body, "status", "R-060")
        if status is None and body.get("status") is None:
            self._flag("R-060", "has no status; the run goes on as it was.")
        if status is None or status is RunStatus.RUNNING:
            self._refuse_early_verdict(body)
            return
        self.status = status
        self.final_update = self.last_update
        self.verdict = self._choice(Verdict, body, "verdict", "R-062")
        self.outcome_reason = self._choice(OutcomeReason, body, "outcome_reason", "R-064")
        self.capacity_block = body.get("capacity_block")

    def _refuse_early_verdict(self, body: Mapping[str, JsonValue]) -> None:
        for name in ("verdict", "outcome_reason"):
            if body.get(name) is not None:
                self._flag("R-061", f"states a {name} while the run goes on; it is ignored.")

    def _add_summary(self, body: Mapping[str, JsonValue]) -> None:
        summary = body.get("summary")
        if isinstance(summary, str):
            self.summary = summary
            if _count_sentences(summary) > _SENTENCES:
                self._flag("R-072", f"has a summary of more than {_SENTENCES} sentences.")
        elif summary is not None:
            self._flag("R-060", f"has a summary that is not a string but {show(summary)}.")

    def _add_metrics(self, body: Mapping[str, JsonValue]) -> None:
        metrics = body.get("metrics")
        if metrics is not None and not isinstance(metrics, Mapping):
            self._flag("R-060", f"has metrics that are not an object but {show(metrics)}.")
        for name, value in as_mapping(metrics).items():
            if name != "arms":
                self._record(self.metrics, "metrics", name, value)
        for arm, values in as_mapping(as_mapping(metrics).get("arms")).items():
            self._check_arm(arm, "metrics.arms")
            histories = self.arms.setdefault(arm, {})
            for name, value in as_mapping(values).items():
                self._record(histories, f"metrics.arms.{arm}", name, value)

    def _record(self, metrics: dict[str, list[MetricValue]], where: str, name: str, value: JsonValue) -> None:
        if not is_number(value):
            path = f"{where}.{name}"
            self._flag_once(
                "R-068", path, f"posts {path} = {show(value)}; a metric is a finite number, so it is left out."
            )
            return
        history = metrics.setdefault(name, [])
        if not history or history[-1].value != value:
            history.append(MetricValue(value, self.last_update))

    def _add_completed_arms(self, body: Mapping[str, JsonValue]) -> None:
        completed = body.get("completed_arms")
        if completed is not None and not isinstance(completed, list):
            self._flag("R-066", f"has completed_arms that are not a list but {show(completed)}.")
        for arm in as_list(completed):
            if not isinstance(arm, str):
                self._flag("R-066", f"lists {show(arm)} among completed_arms; an arm is named by a string.")
            elif arm not in self.completed_arms:
                self._check_arm(arm, "completed_arms")
                self.completed_arms[arm] = self.last_update

    def _check_arm(self, arm: str, path: str) -> None:
        if self.known_arms is not None and arm not in self.known_arms:
            self._flag_once("R-066", f"{path} {arm}", f"names {show(arm)} in {path}, which is no arm of the spec.")

    def _add_parts(self, body: Mapping[str, JsonValue]) -> None:
        for part in PARTS:
            if body.get(part) is not None:
                self.posted.setdefault(part, []).append(Posted(self.last_update, body[part]))

    def _choice(self, choices: type[_Choice], body: Mapping[str, JsonValue], name: str, rule: str) -> _Choice | None:
        value = body.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value in choices.__members__.values():
            return choices(value)
        allowed = ", ".join(choices)
        self._flag(rule, f"has {name} {show(value)}, which is none of {allowed}; it is left out.")
        return None

    def _flag(self, rule: str, text: str) -> None:
        self.flags_of_update += 1
        if self.flags_of_update < MAX_FLAGS:
            self.flags.append(Flag(rule, self.last_update, text))
        elif self.flags_of_update == MAX_FLAGS:
            self.flags.append(Flag(rule, self.last_update, "has more that is odd than is told here."))

    def _flag_once(self, rule: str, subject: str, text: str) -> None:
        if subject not in self.said:
            self.said.add(subject)
            self._flag(rule, text)


def _histories(metrics: Mapping[str, Sequence[MetricValue]]) -> dict[str, MetricHistory]:
    return {name: MetricHistory(tuple(values)) for name, values in metrics.items()}


def _count_sentences(text: str) -> int:
    """Sentence ends are `.`, `!` or `?` before white space or the end, so that 0.5 is not one."""
    return len(_SENTENCE_END.findall(text))


_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?!\S)")
