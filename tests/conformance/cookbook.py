"""Training and weights with tinker-cookbook; run by `test_cookbook.py` in its own environment, never imported.

`python -m tests.conformance.cookbook FOLDER MODEL_DIRECTORY` runs every scenario with the server of the environment and
prints one JSON object: what each returned, or its traceback under the name of the scenario.
"""

import asyncio
import json
import sys
import traceback
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import chz
import datasets
import numpy as np
import tinker
import torch
from safetensors.torch import load_file
from tinker_cookbook import renderers, weights
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.preference.dpo_datasets import DPODatasetBuilderFromComparisons
from tinker_cookbook.preference.preference_datasets import ComparisonDatasetBuilder
from tinker_cookbook.preference.types import Comparison, LabeledComparison
from tinker_cookbook.rl import train as rl
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder
from tinker_cookbook.supervised import train as supervised
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig
from tinker_cookbook.tokenizer_utils import get_tokenizer

from tests.conformance.data import TEXT, logprobs
from tests.conformance.data import supervised as datum
from tests.servers import MODEL

RENDERER = "role_colon"
"""Needs no chat template."""


def common(batch_size: int) -> Any:
    return ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=MODEL, renderer_name=RENDERER, max_length=128, batch_size=batch_size
    )


def history(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]


def series(log: Path, name: str) -> list[float]:
    return [row[name] for row in history(log) if name in row]


def saved(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (log / "checkpoints.jsonl").read_text().splitlines()]


def supervised_config(folder: Path, max_steps: int) -> Any:
    conversations = folder / "conversations.jsonl"
    lines = [
        {"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "abc" * 3}]}
        for n in range(20)
    ]
    conversations.write_text("\n".join(map(json.dumps, lines)))
    return supervised.Config(
        log_path=str(folder / "supervised"),
        model_name=MODEL,
        recipe_name="conformance",
        renderer_name=RENDERER,
        dataset_builder=FromConversationFileBuilder(common_config=common(4), file_path=str(conversations), test_size=4),
        learning_rate=5e-3,
        lr_schedule="constant",
        num_epochs=3,
        lora_rank=4,
        save_every=2,
        eval_every=2,
        max_steps=max_steps,
    )


def train_supervised(folder: Path, _: Path) -> Any:
    """Five steps; then again, as if it had been interrupted before its last checkpoint, up to the eighth step."""
    log = folder / "supervised"
    asyncio.run(supervised.main(supervised_config(folder, 5)))
    first = saved(log)
    (log / "checkpoints.jsonl").write_text("".join(json.dumps(row) + "\n" for row in first[:-1]))
    asyncio.run(supervised.main(supervised_config(folder, 8)))
    return {
        "nll": series(log, "train_mean_nll"),
        "steps": [row["step"] for row in history(log) if "train_mean_nll" in row],
        "test_nll": series(log, "test/nll"),
        "first": [row["name"] for row in first],
        "last": saved(log)[-1],
    }


class Letters(ProblemEnv):
    """An ASCII letter is right: one token in five of an untrained model."""

    def get_question(self) -> str:
        return "Say a letter."

    def check_answer(self, sample_str: str) -> bool:
        return any(letter.isascii() and letter.isalpha() for letter in sample_str)

    def check_format(self, sample_str: str) -> bool:
        return True

    def get_reference_answer(self) -> str:
        return "a"


class LettersDataset(RLDataset):
    def __init__(self, renderer: Any) -> None:
        self.group = ProblemGroupBuilder(
            env_thunk=partial(Letters, renderer, format_coef=0.0), num_envs=24, dataset_name="letters"
        )

    def get_batch(self, index: int) -> list[ProblemGroupBuilder]:
        return [self.group] * 4

    def __len__(self) -> int:
        return 8


@chz.chz
class LettersBuilder(RLDatasetBuilder):
    async def __call__(self) -> tuple[LettersDataset, None]:
        return LettersDataset(renderers.get_renderer(RENDERER, get_tokenizer(MODEL))), None


def train_reinforced(folder: Path, _: Path) -> Any:
    """Groups of rollouts with a KL penalty against the base model, and PPO."""
    log = folder / "reinforced"
    config = rl.Config(
        learning_rate=1e-2,
        dataset_builder=LettersBuilder(),
        model_name=MODEL,
        recipe_name="conformance",
        max_tokens=1,
        log_path=str(log),
        eval_every=0,
        save_every=4,
        renderer_name=RENDERER,
        kl_penalty_coef=0.001,
        kl_reference_config=rl.KLReferenceConfig(base_model=MODEL),
        loss_fn="ppo",
        num_substeps=2,
        lora_rank=4,
        compute_post_kl=True,
    )
    asyncio.run(rl.main(config))
    return {
        "reward": series(log, "env/all/reward/total"),
        "kl": series(log, "optim/kl_sample_train_v1"),
        "saved": [row["name"] for row in saved(log)],
        "metrics": sorted(history(log)[-1]),
    }


@chz.chz
class ShorterBuilder(ComparisonDatasetBuilder):
    """`a` is preferred to `zzzz`."""

    def get_train_and_test_datasets(self) -> tuple[datasets.Dataset, None]:
        return datasets.Dataset.from_list([{"question": f"{number}"} for number in range(24)]), None

    def example_to_labeled_comparison(self, example: dict[str, Any]) -> LabeledComparison:
        question, short, long = (
            [{"role": role, "content": content}]
            for role, content in (("user", example["question"]), ("assistant", "a"), ("assistant", "zzzz"))
        )
        comparison = Comparison(prompt_conversation=question, completion_A=short, completion_B=long)
        return LabeledComparison(comparison=comparison, label="A")


def train_preference(folder: Path, _: Path) -> Any:
    """DPO, whose loss the client computes."""
    log = folder / "preference"
    config = train_dpo.Config(
        log_path=str(log),
        model_name=MODEL,
        recipe_name="conformance",
        renderer_name=RENDERER,
        dataset_builder=DPODatasetBuilderFromComparisons(common_config=common(4), comparison_builder=ShorterBuilder()),
        learning_rate=5e-3,
        lr_schedule="constant",
        dpo_beta=0.1,
        lora_rank=4,
        save_every=3,
        eval_every=0,
        infrequent_eval_every=0,
    )
    train_dpo.main(config)
    return {
        "loss": series(log, "dpo_loss"),
        "accuracy": series(log, "accuracy"),
        "saved": [r["name"] for r in saved(log)],
    }


def differing(one: Path, other: Path) -> list[str]:
    """The tensors of two models that are not the same."""
    first, second = (load_file(path / "model.safetensors") for path in (one, other))
    return [name for name, tensor in first.items() if not torch.equal(tensor, second[name].to(tensor.dtype))]


def build_weights(folder: Path, model: Path) -> Any:
    """Downloaded, encrypted on the way, then merged into the model and converted for PEFT: all the same likelihoods.

    Without an adapter of the head: the tiny model's head is tied, and the cookbook merges it into the embedding too.
    """
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    def likelihood(network: Any) -> list[float]:
        with torch.no_grad():
            scores = network(torch.tensor([TEXT[:-1]])).logits.log_softmax(-1)[0]
        return [float(scores[place, token]) for place, token in enumerate(TEXT[1:])]

    with tinker.ServiceClient() as service:
        training = service.create_lora_training_client(base_model=MODEL, rank=4, seed=1, train_unembed=False).result()
        for _ in range(3):
            training.forward_backward([datum()], "cross_entropy").result()
            training.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
        expected = logprobs(training.forward([datum()], "cross_entropy").result())[0]
        state = training.save_state("weights").result().path
        external = training.save_weights_external("weights").result().path
        adapter = weights.download(tinker_path=state, output_dir=str(folder / "adapter"))
        plain = weights.download(tinker_path=external, output_dir=str(folder / "plain"))
        supervised_state = saved(folder / "supervised")[-1]["state_path"]
        with_head = weights.download(tinker_path=supervised_state, output_dir=str(folder / "with-head"))
        listed = tinker.RestClient().list_user_checkpoints(limit=1000).result().checkpoints
    merged, peft = folder / "merged", folder / "peft"
    weights.build_hf_model(base_model=str(model), adapter_path=adapter, output_path=str(merged), dtype="float32")
    weights.build_lora_adapter(base_model=str(model), adapter_path=adapter, output_path=str(peft))
    weights.build_hf_model(
        base_model=str(model), adapter_path=with_head, output_path=str(folder / "merged-head"), dtype="float32"
    )
    networks = {
        "merged": AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32),
        "peft": PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), peft),
    }
    return {
        "files": sorted(path.name for path in Path(adapter).iterdir()),
        "same": all((Path(plain) / path.name).read_bytes() == path.read_bytes() for path in Path(adapter).iterdir()),
        "left": [row.tinker_path for row in listed if row.checkpoint_id == "external_weights/download"],
        "head": any("embed_tokens" in name for name in differing(model, folder / "merged-head")),
        "moved": float(np.abs(expected - likelihood(AutoModelForCausalLM.from_pretrained(model))).max()),
        "off": {name: float(np.abs(expected - likelihood(network)).max()) for name, network in networks.items()},
    }


def main() -> None:
    folder, model = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"cookbook": metadata.version("tinker-cookbook")}
    for scenario in (train_supervised, train_reinforced, train_preference, build_weights):
        try:
            results[scenario.__name__] = scenario(folder, model)
        except Exception:
            results[scenario.__name__] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
