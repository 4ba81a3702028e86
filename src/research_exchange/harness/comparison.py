"""A comparison of arms under one frozen evaluator, reported as it grows and handed over for the decision."""

from typing import Any

from research_exchange.client import Run
from research_exchange.decision import Decision, decide
from research_exchange.documents.spec import Spec
from research_exchange.harness.evaluator import Evaluator
from research_exchange.harness.scores import ArmScore, jsonl

OBSERVATIONS = "observations.jsonl"


class Comparison:
    """Keeps the evaluation document, retains each arm's predictions, and in the end all observations.

    The order is the rules' own: `freeze` before any arm is scored (R-130), `add` as soon as an arm is finished
    (R-069, R-168), `conclude` once all are.
    """

    def __init__(self, run: Run, evaluator: Evaluator, *, arms: tuple[str, ...]) -> None:
        self._run = run
        self._evaluator = evaluator
        self._arms = arms
        self._scores: list[ArmScore] = []

    def freeze(self) -> None:
        """Put the evaluator on record while there is nothing to score yet."""
        self._run.update(evaluation=self._evaluation())

    def add(self, score: ArmScore, *, step: int = 0) -> None:
        """Retain the predictions of an arm, trained for `step` steps, and report its score."""
        self._run.evidence(_predictions(score), "predictions", jsonl(score.prediction_rows()))
        self._scores.append(score)
        means = {score.arm: {score.metric: score.mean}}
        checkpoints = [{"arm": score.arm, "step": step, "uri": score.checkpoint}] if score.checkpoint else []
        self._run.update(
            evaluation=self._evaluation(),
            metrics={"arms": means},
            completed_arms=[score.arm],
            evidence={"version": 1, "files": [], "checkpoints": checkpoints, "per_arm_metrics": means},
        )

    def mean(self, arm: str) -> float:
        """The score of an arm that was added."""
        return next(score.mean for score in self._scores if score.arm == arm)

    def conclude(self) -> Decision:
        """Retain every observation, name the file as the ground of the decision (R-142), and decide.

        The verdict comes from the spec's own rule, by the code that the Exchange recomputes it with.
        """
        rows = [row for score in self._scores for row in score.observation_rows()]
        kept = self._run.evidence(OBSERVATIONS, "metrics", jsonl(rows))
        self._run.update(decision={"version": 1, "observations_file": {"name": kept.name, "sha256": kept.sha256}})
        return decide(Spec.parse(self._run.spec_bytes()), rows, self._evaluation())

    def _evaluation(self) -> dict[str, Any]:
        """The evaluation document (R-130) as it stands."""
        return {
            "version": 1,
            "evaluators": {self._evaluator.id: self._evaluator.provenance},
            "scores": [score.score_row(_predictions(score)) for score in self._scores],
            "comparisons": [{"metric": self._evaluator.metric, "arms": list(self._arms)}],
        }


def _predictions(score: ArmScore) -> str:
    return f"predictions-{score.arm}-seed{score.seed}.jsonl"
