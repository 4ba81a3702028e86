"""Sampling against `transformers.generate`: the same prompts, as many tokens, no stops."""

from typing import Any

import numpy as np
import torch

from benchmarks.comparison import THREADS, Comparison, compare
from spindle import backends
from spindle.backends.contract import SampleRequest, SamplingParams
from spindle.backends.models import InstalledModel


def run(
    model: InstalledModel, prompts: int = 8, samples: int = 8, prompt_length: int = 48, new_tokens: int = 64
) -> list[Comparison]:
    """Several samples of each prompt at temperature 1, as a step of GRPO draws them."""
    torch.set_num_threads(THREADS)
    data = np.random.default_rng(0).integers(17, 49_000, (prompts, prompt_length))
    ours = _Spindle(model)
    ours.sample(data[:1], samples, 2)  # ends the loading in the background: `transformers` loads one model at a time
    theirs = _Generate(model)
    theirs.sample(data[:1], samples, 2)
    return [
        compare(
            f"sample {prompts} prompts × {samples} × {new_tokens}",
            "transformers.generate",
            prompts * samples * new_tokens,
            lambda: ours.sample(data, samples, new_tokens),
            lambda: theirs.sample(data, samples, new_tokens),
        )
    ]


class _Spindle:
    def __init__(self, model: InstalledModel) -> None:
        self._name = model.name
        self._backend = backends.load({model.name: model.path}, threads=THREADS)

    def sample(self, data: Any, samples: int, new_tokens: int) -> None:
        params = SamplingParams(new_tokens, stop_tokens=())
        results = self._backend.sample([SampleRequest(self._name, None, row, samples, params) for row in data])
        for result in results:
            if isinstance(result, backends.UserError):
                raise result


class _Generate:
    def __init__(self, model: InstalledModel) -> None:
        from transformers import LlamaForCausalLM

        self._network: Any = LlamaForCausalLM.from_pretrained(model.path, dtype=torch.float32).eval()

    def sample(self, data: Any, samples: int, new_tokens: int) -> None:
        prompts = torch.tensor(data)
        self._network.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            top_k=0,
            num_return_sequences=samples,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
        )
