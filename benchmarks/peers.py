"""The libraries' side of the work: a PEFT + torch loop, and `transformers.generate`."""

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.comparison import THREADS
from benchmarks.data import NEW_TOKENS, PROMPT_TOKENS, SAMPLES, prompts, random_tokens

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
MICRO_BATCH_TOKENS = 2048


class Libraries:
    """The same work with as little code as a user would write; models are loaded when first needed."""

    def __init__(self, model: Path) -> None:
        torch.set_num_threads(THREADS)
        self._path = model

    def train(self, sequences: int, length: int) -> None:
        """Cross-entropy through LoRA of rank 32 on attention, MLP and head, in micro-batches."""
        self._backward(random_tokens(sequences, length + 1))

    def optimize(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad()

    def sample(self, new_tokens: int = NEW_TOKENS) -> Any:
        """From the base weights; [prompts * samples, prompt + new_tokens] tokens."""
        tokens = torch.tensor(prompts())
        return self._base.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=True,
            top_k=0,
            num_return_sequences=SAMPLES,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
        ).numpy()

    def grpo_step(self) -> None:
        """Rollouts from the base weights, as if an adapter had been merged at no cost; then a step on them."""
        rows = self.sample()
        shape = (len(rows), rows.shape[1] - 1)
        advantages = np.ones(shape, np.float32)
        advantages[1::2] = -1
        advantages[:, : PROMPT_TOKENS - 1] = 0
        self._backward(rows, advantages)
        self.optimize()

    def _backward(self, rows: Any, advantages: Any = None) -> None:
        """Rows [B, N + 1] of tokens; with advantages [B, N] importance sampling, else cross-entropy."""
        size = max(1, MICRO_BATCH_TOKENS // (rows.shape[1] - 1))
        for start in range(0, len(rows), size):
            batch = torch.tensor(rows[start : start + size])
            logits = self._peft(input_ids=batch[:, :-1], use_cache=False).logits
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none"
            ).view(len(batch), -1)
            _total(losses, None if advantages is None else advantages[start : start + size]).backward()  # type: ignore[no-untyped-call]

    @cached_property
    def _base(self) -> Any:
        from transformers import LlamaForCausalLM

        return LlamaForCausalLM.from_pretrained(self._path, dtype=torch.float32).eval()

    @cached_property
    def _peft(self) -> Any:
        import peft
        from transformers import LlamaForCausalLM

        network = LlamaForCausalLM.from_pretrained(self._path, dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the head is tied to the embedding, which is meant here
            config = peft.LoraConfig(r=32, lora_alpha=32, target_modules=MODULES)
            return peft.get_peft_model(network, config).train()

    @cached_property
    def _optimizer(self) -> Any:
        return torch.optim.AdamW((p for p in self._peft.parameters() if p.requires_grad), lr=1e-6)


def _total(losses: Tensor, advantages: Any) -> Tensor:
    if advantages is None:
        return losses.sum()
    ratio = torch.exp(losses.detach() - losses)
    return -(ratio * torch.tensor(advantages)).sum()
