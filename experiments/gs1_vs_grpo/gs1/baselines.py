"""What a reward is held against, and how much of a batch each baseline listens to.

Every baseline here but that of GRPO is a row of weights over the other rollouts of the batch: zero on the rollout
itself, summing to 1. Weights follow from the prompts alone, never from what was answered or rewarded, so that the
gradient stays unbiased.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from research_exchange.harness import HarnessError

__all__ = [
    "TAUS",
    "Mode",
    "Similarity",
    "TauRow",
    "baseline_weights",
    "contributors",
    "group_advantages",
    "largest_tau_within",
    "loo_advantages",
    "softmax_weights",
    "tau_table",
    "uniform_weights",
    "variance_equivalent_batch",
]

Floats = NDArray[np.float64]

TAUS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Temperatures that a table compares."""


class Mode(StrEnum):
    """How an arm turns the rewards of a step into advantages."""

    GRPO = "grpo"
    """Reward less the mean of the prompt's own group, itself included."""
    GS1 = "gs1"
    """Reward less the mean of the other prompts' rewards, weighted by how similar the prompts are."""
    UNIFORM_LOO = "uniform_loo"
    """Control: the same with equal weights."""
    GS1_SHUFFLED = "gs1_shuffled"
    """Control: the weights of `gs1`, dealt to the wrong rollouts."""


@dataclass(frozen=True)
class Similarity:
    """Cosines between texts by TF-IDF: the vectoriser's call, as the spec pins it, fitted on the batch."""

    arguments: Mapping[str, Any]

    def cosines(self, texts: Sequence[str]) -> Floats:
        """[texts, texts]

        Raises:
            HarnessError: the call finds nothing to count in any of them.
        """
        vectorizer = self._vectorizer()
        try:
            vectors = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise HarnessError(
                f"{vectorizer} finds nothing to compare in {len(texts)} prompts such as {texts[0]!r} ({error}); "
                "pin another call in the spec, such as analyzer='char'."
            ) from None
        cosines: Floats = (vectors @ vectors.T).toarray()
        return cosines

    @property
    def characters(self) -> tuple[int, int] | None:
        """The lengths of the character runs that are counted; None where words are."""
        if self.arguments.get("analyzer", "word") == "word":
            return None
        least, most = self.arguments.get("ngram_range", (1, 1))
        return least, most

    def record(self) -> dict[str, Any]:
        """The call with every default it takes, for the effective config."""
        vectorizer = self._vectorizer()
        settings = {
            name: str(value) if isinstance(value, type) else value for name, value in vectorizer.get_params().items()
        }
        version = metadata.version("scikit-learn")
        return {"call": repr(vectorizer), "settings": settings, "fitted_on": "the batch", "scikit-learn": version}

    def _vectorizer(self) -> TfidfVectorizer:
        """JSON has no tuples, and `ngram_range` takes nothing else."""
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in self.arguments.items()}
        return TfidfVectorizer(**given)


def softmax_weights(cosines: Floats, tau: float) -> Floats:
    """w[i, j]: softmax over j ≠ i of cos / τ."""
    scores = cosines / tau
    np.fill_diagonal(scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights: Floats = raised / raised.sum(axis=1, keepdims=True)
    return weights


def uniform_weights(size: int) -> Floats:
    """The same weight for every rollout but the own one."""
    return (1.0 - np.eye(size)) / (size - 1)


def baseline_weights(
    mode: Mode, texts: Sequence[str], similarity: Similarity, tau: float, seed: Sequence[int]
) -> Floats:
    """The weights of a mode that has any, for one rollout to each text.

    Args:
        seed: Of the shuffle of `gs1_shuffled`; another one for each step.
    """
    if mode is Mode.UNIFORM_LOO:
        return uniform_weights(len(texts))
    weights = softmax_weights(similarity.cosines(texts), tau)
    if mode is Mode.GS1_SHUFFLED:
        dealt = np.random.default_rng(seed).permutation(len(texts))
        return weights[np.ix_(dealt, dealt)]
    return weights


def loo_advantages(rewards: Floats, weights: Floats) -> Floats:
    """r_i − Σ_j w_ij r_j, summed as Σ_j w_ij (r_i − r_j), which is 0 and not nearly 0 where all rewards are alike."""
    advantages: Floats = (weights * (rewards[:, None] - rewards[None, :])).sum(axis=1)
    return advantages


def group_advantages(rewards: Floats) -> Floats:
    """[groups, answers per group] Reward less the group's mean."""
    advantages: Floats = rewards - rewards.mean(axis=1, keepdims=True)
    return advantages


def contributors(weights: Floats) -> Floats:
    """[rollouts] 1 / Σ_j w_ij²: as many equal weights would leave as much noise in the baseline (Kish)."""
    count: Floats = 1.0 / (weights**2).sum(axis=1)
    return count


def variance_equivalent_batch(advantages: Floats, reference: Floats) -> float:
    """The batch size at which the reference baseline would leave as much variance as these advantages have.

    Args:
        advantages: [steps, rollouts]
        reference: The same rollouts' under the reference baseline.
    """
    spread = float(advantages.var(axis=1).mean())
    return advantages.shape[1] * float(reference.var(axis=1).mean()) / spread if spread else float(advantages.shape[1])


class TauRow(NamedTuple):
    """The median number of contributors under one temperature, over batches of prompts."""

    tau: float
    lowest: float
    median: float
    highest: float


def tau_table(batches: Sequence[Sequence[str]], similarity: Similarity, taus: Sequence[float] = TAUS) -> list[TauRow]:
    """From prompts alone: a temperature that was tuned on rewards would bias the gradient it serves."""
    cosines = [similarity.cosines(batch) for batch in batches]
    rows = []
    for tau in taus:
        medians = [float(np.median(contributors(softmax_weights(each, tau)))) for each in cosines]
        rows.append(TauRow(tau, min(medians), float(np.median(medians)), max(medians)))
    return rows


def largest_tau_within(rows: Sequence[TauRow], least: float, most: float) -> float | None:
    """The largest temperature at which every batch keeps to a range; None where there is none."""
    return max((row.tau for row in rows if least <= row.lowest and row.highest <= most), default=None)
