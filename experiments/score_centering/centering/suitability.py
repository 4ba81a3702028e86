"""Whether a service has what all arms need: the likeliest tokens of what it generates, and several targets a position.

Asked with one answer, before anything trains, so that a service without them is told of in a sentence.
"""

from typing import Any

import tinker
import torch
from tinker.types import Datum, SampledSequence

from research_exchange.harness import HarnessError, Task, sample_groups
from research_exchange.harness.probe import REFUSALS

from .losses import EMPTY, head_datum
from .plan import Plan
from .training import new_learner

__all__ = ["must_suit"]

PROBED_TOKENS = 2
"""Of the one answer."""


def must_suit(service: tinker.ServiceClient, tokenizer: Any, task: Task, plan: Plan) -> None:
    """Go on where the service samples with heads, and learns from them.

    Raises:
        HarnessError: it does not; the sentence says what is missing.
    """
    sampler = service.create_sampling_client(base_model=plan.base_model).result()
    prompt = tokenizer.encode(task.prompt(task.training[0]))
    answer = _with_head(sampler, prompt, plan, vocabulary=len(tokenizer))
    datum = head_datum(prompt, answer, 1.0, vocabulary=len(tokenizer))
    learner = new_learner(service, plan)
    try:
        learner.forward_backward_custom([datum], _of_every_target).result()
    except REFUSALS as refused:
        raise HarnessError(
            f"The service does not take {1 + plan.top_k} targets a position in forward_backward_custom, as every arm "
            f"of score centering sends them: {refused}"
        ) from refused


def _with_head(sampler: tinker.SamplingClient, prompt: list[int], plan: Plan, *, vocabulary: int) -> SampledSequence:
    try:
        [[answer]] = sample_groups(sampler, [prompt], group_size=1, max_tokens=PROBED_TOKENS, seed=0, topk=plan.top_k)
    except REFUSALS as refused:
        raise HarnessError(
            f"The service does not return the {plan.top_k} likeliest tokens of generated positions "
            f"(topk_sample_logprobs), which every arm of score centering takes: {refused}"
        ) from refused
    if answer.topk_logprobs_np is not None:
        wanted = min(plan.top_k, vocabulary)
        found = int((answer.topk_logprobs_np.logprobs > EMPTY).sum(axis=1).min(initial=wanted))
        if found < wanted:
            raise HarnessError(
                f"The service returned {found} likeliest tokens of a generated position, and top_k asks for {wanted}; "
                "save a version of the spec with a smaller top_k."
            )
    return answer


def _of_every_target(data: list[Datum], logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
    """A loss that every target has a part in."""
    for datum, each in zip(data, logprobs, strict=True):
        wanted = datum.loss_fn_inputs["target_tokens"].to_numpy().shape
        if tuple(each.shape) != wanted:
            raise HarnessError(
                f"The service answered targets of the shape {list(wanted)} with log-probabilities of the shape "
                f"{list(each.shape)}; score centering takes one for each target, so run it on a service that has "
                "several targets a position."
            )
    return -torch.stack([each.mean() for each in logprobs]).sum(), {}
