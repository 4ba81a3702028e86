"""The same work with the libraries alone: a PEFT + torch loop, and `transformers.generate`."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
MICRO_BATCH_TOKENS = 2048


class Peft:
    """LoRA of rank 32 on attention, MLP and head, trained in micro-batches."""

    def __init__(self, model: Path) -> None:
        import peft
        from transformers import LlamaForCausalLM

        network = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the head is tied to the embedding, which is meant here
            config = peft.LoraConfig(r=32, lora_alpha=32, target_modules=MODULES)
            self._network: Any = peft.get_peft_model(network, config)
        self._network.train()
        self._optimizer = torch.optim.AdamW(p for p in self._network.parameters() if p.requires_grad)

    def forward_backward(self, data: Any, advantages: Any = None, logprobs: Any = None) -> None:
        """Cross-entropy over rows [B, N + 1] of tokens; with advantages and logprobs [B, N], importance sampling."""
        rows = max(1, MICRO_BATCH_TOKENS // (data.shape[1] - 1))
        for start in range(0, len(data), rows):
            part = slice(start, start + rows)
            batch = torch.tensor(data[part])
            logits = self._network(input_ids=batch[:, :-1], use_cache=False).logits
            targets = batch[:, 1:]
            if advantages is None:
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            else:
                found = _logprobs(logits, targets)
                loss = -(torch.exp(found - torch.tensor(logprobs[part])) * torch.tensor(advantages[part])).sum()
            loss.backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad()


def _logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return -losses.view(targets.shape)


class Generate:
    """Sampling from the base weights, as if an adapter had been merged at no cost."""

    def __init__(self, model: Path) -> None:
        from transformers import LlamaForCausalLM

        self._network: Any = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def sample(self, prompts: Any, samples: int, new_tokens: int) -> Any:
        """[B, P] prompts to [B * samples, P + new_tokens] tokens."""
        tokens = torch.tensor(prompts)
        return self._network.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=True,
            top_k=0,
            num_return_sequences=samples,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
        ).numpy()


def random_tokens(rows: int, length: int, seed: int = 0) -> Any:
    """[rows, length] of ordinary token ids."""
    return np.random.default_rng(seed).integers(17, 49_000, (rows, length))
