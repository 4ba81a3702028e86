"""`forward_backward` and `optim_step` against a plain PEFT and torch loop with the same trainable modules."""

import warnings
from typing import Any

import numpy as np
import torch

from benchmarks.comparison import THREADS, Comparison, compare
from spindle import backends
from spindle.backends.contract import AdamParams, Datum, ForwardBackward, LoraShape, OptimizerConfig
from spindle.backends.models import InstalledModel

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
MICRO_BATCH_TOKENS = 2048


def run(model: InstalledModel, sequences: int = 32, length: int = 128) -> list[Comparison]:
    """Cross-entropy on random tokens, LoRA of rank 32 on attention, MLP and head."""
    torch.set_num_threads(THREADS)
    draw = np.random.default_rng(0)
    data = draw.integers(17, 49_000, (sequences, length + 1))
    ours, theirs = _Spindle(model), _Peft(model)
    for warm in (ours, theirs):
        warm.forward_backward(data[:2])
        warm.step()
    return [
        compare(
            f"forward_backward {sequences}×{length}",
            "PEFT + torch",
            sequences * length,
            lambda: ours.forward_backward(data),
            lambda: theirs.forward_backward(data),
        ),
    ]


class _Spindle:
    def __init__(self, model: InstalledModel) -> None:
        self._backend = backends.load({model.name: model.path}, threads=THREADS)
        self._backend.create_model("m", model.name, LoraShape(rank=32, seed=0), OptimizerConfig())

    def forward_backward(self, data: Any) -> None:
        datums = [
            Datum(row[:-1], {"target_tokens": row[1:], "weights": np.ones(len(row) - 1, np.float32)}) for row in data
        ]
        (result,) = self._backend.forward_backward([ForwardBackward("m", datums, "cross_entropy")])
        if isinstance(result, backends.UserError):
            raise result

    def step(self) -> None:
        self._backend.optim_step("m", AdamParams())


class _Peft:
    def __init__(self, model: InstalledModel) -> None:
        import peft
        from transformers import LlamaForCausalLM

        network = LlamaForCausalLM.from_pretrained(model.path, dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the head is tied to the embedding, which is meant here
            config = peft.LoraConfig(r=32, lora_alpha=32, target_modules=MODULES)
            self._network: Any = peft.get_peft_model(network, config)
        self._network.train()
        self._optimizer = torch.optim.AdamW(p for p in self._network.parameters() if p.requires_grad)

    def forward_backward(self, data: Any) -> None:
        rows = max(1, MICRO_BATCH_TOKENS // (data.shape[1] - 1))
        for start in range(0, len(data), rows):
            batch = torch.tensor(data[start : start + rows])
            logits = self._network(input_ids=batch[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")
            loss.backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad()
