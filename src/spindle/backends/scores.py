"""Log-probabilities under the model: of chosen tokens, of the likeliest, and of whole prompts."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Top(NamedTuple):
    token_ids: Tensor
    """int64 [n, k], likeliest first."""
    logprobs: Tensor
    """fp32 [n, k]"""


@dataclass(frozen=True)
class Scores:
    """What fp32 logits [n, vocabulary] say at temperature 1, without writing out their logarithms."""

    logits: Tensor
    probabilities: Tensor
    """fp32 [n, vocabulary]"""
    normalizers: Tensor
    """float64 [n, 1]: log of the sum of exp(logits)."""

    @classmethod
    def of(cls, logits: Tensor) -> "Scores":
        probabilities = torch.softmax(logits, dim=-1)
        peaks, shares = (values.amax(dim=-1, keepdim=True).double() for values in (logits, probabilities))
        return cls(logits, probabilities, peaks - shares.log())

    def logprobs(self, tokens: Tensor) -> Tensor:
        """fp32 [n, k] of tokens int64 [n, k]."""
        return (self.logits.gather(1, tokens).double() - self.normalizers).float()

    def top(self, k: int) -> Top:
        values, ids = self.logits.topk(k, dim=-1)
        return Top(ids, (values.double() - self.normalizers).float())
