"""A comparison of arms under a frozen evaluator, reported as it grows and handed over for the decision."""

import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tinker import SamplingClient

from research_exchange.client import Run
from research_exchange.decision import Decision, decide
from research_exchange.documents.decision_rule import DecisionRule, parse_decision_rule
from research_exchange.documents.spec import Spec
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.evaluator import Evaluator
from research_exchange.harness.rows import jsonl
from research_exchange.harness.scores import ArmScore

__all__ = ["Comparison", "Scored"]


class Scored(NamedTuple):
    """What gets a score: an arm of one seed."""

    arm: str
    seed: int | None


class Comparison:
    """Keeps the evaluation document, retains each arm's predictions, and in the end all observations.

    The order is the rules' own: `freeze` before any arm is scored (R-130), `score` or `add` as soon as an arm is
    finished, the base model under the name `base` first of all (R-069, R-168), `conclude` once all are.
    """

    def __init__(
        self,
        run: Run,
        evaluator: Evaluator,
        *,
        arms: Sequence[str],
        seeds: Sequence[int] | None = None,
        folder: Path | None = None,
    ) -> None:
        """
        Args:
            arms: Those that are compared.
            seeds: What each of them is trained with; None for the schedule of the spec's decision rule.
            folder: Where `score` keeps answers, so that an interrupted run asks none again; see `work_folder`.
        """
        self._run = run
        self._evaluators = [evaluator]
        self._arms = tuple(arms)
        self._seeds = seeds
        self._folder = folder
        self._scores: list[ArmScore] = []

    @property
    def evaluator(self) -> Evaluator:
        """The one in use."""
        return self._evaluators[-1]

    def freeze(self) -> None:
        """Put the evaluator on record while there is nothing to score yet.

        Raises:
            HarnessError: if it names its items by a manifest, and the spec's rule needs their ids (R-145).
        """
        if self.evaluator.manifest is not None:
            if self._rule is not None:
                raise HarnessError(
                    "A decision rule needs the ids of the items (R-145); give the evaluator no manifest."
                )
            self._run.evidence(self.evaluator.manifest, "other", self.evaluator.manifest_file())
        self._run.update(evaluation=self._evaluation())

    def score(
        self,
        sampler: SamplingClient,
        tokenizer: Any,
        *,
        arm: str,
        seed: int | None,
        checkpoint: str | None = None,
        step: int = 0,
    ) -> ArmScore:
        """Score an arm with the evaluator in use, and `add` the result; see `Evaluator.score`."""
        folder = self._folder and self._folder / self._run.id
        score = self.evaluator.score(sampler, tokenizer, arm=arm, seed=seed, checkpoint=checkpoint, folder=folder)
        self.add(score, step=step)
        return score

    def add(self, score: ArmScore, *, step: int = 0) -> None:
        """Retain the predictions of an arm, trained for `step` steps, and report its score.

        The arm counts as completed once every seed of the schedule is scored; its metrics are the means over seeds.

        Raises:
            HarnessError: if another evaluator than the one in use made the score: scores are never relabelled (R-136).
        """
        if score.evaluator_id != self.evaluator.id:
            raise HarnessError(
                f"The score of {score.arm} is not from the evaluator in use; score it again with this one (R-136)."
            )
        for file in score.files():
            self._run.evidence(file.name, file.kind, file.content)
        self._scores.append(score)
        means = {} if self._waiting(score) else {score.arm: self._means(score.arm)}
        completed = {"metrics": {"arms": means}, "completed_arms": [score.arm]} if means else {}
        checkpoints = [{"arm": score.arm, "step": step, "uri": score.checkpoint}] if score.checkpoint else []
        self._run.update(
            evaluation=self._evaluation(),
            evidence={"version": 1, "files": [], "checkpoints": checkpoints, "per_arm_metrics": means},
            **completed,
        )

    def change(self, evaluator: Evaluator, *, reason: str) -> list[Scored]:
        """Put another evaluator into use and on record. Returns what has to be scored again with it (R-136).

        Earlier scores stay on record under the evaluator that made them. Where there are any, the change is a deviation
        from the run as it was begun, and is stated as one, with the reason, before anything is scored again (R-130).
        """
        if self._scores:
            self._run.deviation("evaluator", original=self.evaluator.id, effective=evaluator.id, reason=reason)
        self._evaluators.append(evaluator)
        self.freeze()
        return self.stale

    @property
    def stale(self) -> list[Scored]:
        """Arms, and the base model, that an earlier evaluator scored and the one in use did not."""
        current = {Scored(score.arm, score.seed) for score in self._current}
        scored = dict.fromkeys(Scored(score.arm, score.seed) for score in self._scores)
        return [each for each in scored if each not in current]

    def mean(self, arm: str, metric: str | None = None) -> float:
        """The score of an arm that was added, over its seeds: on the evaluator's own metric unless another is named."""
        return self._means(arm)[metric or self.evaluator.metric]

    def conclude(self, *, selection: Mapping[str, Any] | None = None, **parts: Any) -> Decision:
        """Retain every observation, name the file as the ground of the decision (R-142), and decide.

        The verdict comes from the spec's own rule, by the code that the Exchange recomputes it with. Rows of arms and
        metrics that the rule does not weigh, such as the base model's, stay with the predictions.

        Args:
            selection: What was selected before, as it was reported then (R-150).
            parts: What else belongs into the decision, such as `budgets`.

        Raises:
            HarnessError: if something still has its score from an earlier evaluator only.
        """
        if self.stale:
            waiting = ", ".join(f"{arm} (seed {seed})" for arm, seed in self.stale)
            raise HarnessError(f"The evaluator changed; score {waiting} again with the one in use (R-136).")
        rows = [row for score in self._current for row in self._rows_of(score)]
        name = "observations.jsonl" if len(self._evaluators) == 1 else f"observations-{self.evaluator.id[:8]}.jsonl"
        kept = self._run.evidence(name, "metrics", jsonl(rows))
        document = {"version": 1, "observations_file": {"name": kept.name, "sha256": kept.sha256}, **parts}
        self._run.update(decision=document if selection is None else {**document, "selection": selection})
        return decide(self._spec, rows, self._evaluation())

    @cached_property
    def _spec(self) -> Spec:
        return Spec.parse(self._run.spec_bytes())

    @cached_property
    def _rule(self) -> DecisionRule | None:
        return parse_decision_rule(self._spec).rule

    @property
    def _current(self) -> list[ArmScore]:
        identity = self.evaluator.id
        return [score for score in self._scores if score.evaluator_id == identity]

    def _waiting(self, score: ArmScore) -> list[int]:
        """Seeds of the schedule that the arm of a scheduled score still lacks."""
        schedule = self._seeds if self._seeds is not None else self._rule.seeds if self._rule is not None else ()
        done = {each.seed for each in self._current if each.arm == score.arm}
        return [seed for seed in schedule if seed not in done] if score.seed in schedule else []

    def _means(self, arm: str) -> dict[str, float]:
        by_seed = [score.means for score in self._current if score.arm == arm]
        return {metric: statistics.fmean(means[metric] for means in by_seed) for metric in by_seed[0]}

    def _rows_of(self, score: ArmScore) -> list[dict[str, Any]]:
        if self._rule is None:
            return list(score.observation_rows())
        weighed = [metric for metric in self._rule.metrics if score.arm in self._rule.arms_of(metric)]
        return list(score.observation_rows(weighed))

    def _evaluation(self) -> dict[str, Any]:
        """The evaluation document (R-130) as it stands."""
        return {
            "version": 1,
            "evaluators": {evaluator.id: evaluator.provenance for evaluator in self._evaluators},
            "scores": [row for score in self._scores for row in score.score_rows()],
            "comparisons": [
                {"metric": metric, "arms": list(self._arms)}
                for metric in (self.evaluator.metric, *self.evaluator.further)
            ],
        }
