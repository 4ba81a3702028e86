"""Teach a small language model to write a word in capitals, and find out whether it learned to."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from tinker.types import AdamParams, Datum, ModelInput, TensorData

from research_exchange.client import Run
from research_exchange.harness import (
    Checkpoints,
    Comparison,
    Evaluator,
    Item,
    Progress,
    code_revision,
    effective_config,
    service_client,
    work_folder,
)

PROMPT = "In capitals: {question} ->"
HELD_OUT = 200


def words() -> list[Item]:
    """Every word of a consonant, a vowel and a consonant, in a fixed random order."""
    spelled = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "bdgkmnprt"]
    random.Random("capitals").shuffle(spelled)
    return [Item(word, word, word.upper()) for word in spelled]


def answer(completion: str) -> str:
    """The rest of the line, without the space before it."""
    return completion.partition("\n")[0].strip()


evaluator = Evaluator(
    metric="accuracy",
    items=tuple(words()[:HELD_OUT]),
    prompt_template=PROMPT,
    parser=answer,
    max_tokens=6,
    stop=("\n",),
)


def example(tokenizer: Any, word: Item) -> Datum:
    """A prompt and its right answer; only the answer counts."""
    prompt, right = tokenizer.encode(evaluator.prompt(word.question)), tokenizer.encode(f" {word.reference}\n")
    weights = [0.0] * (len(prompt) - 1) + [1.0 / len(right)] * len(right)
    return Datum(
        model_input=ModelInput.from_ints([*prompt, *right][:-1]),
        loss_fn_inputs={
            "target_tokens": TensorData.from_numpy(np.array([*prompt, *right][1:])),
            "weights": TensorData.from_numpy(np.array(weights, dtype=np.float32)),
        },
    )


def train(run: Run, service: tinker.ServiceClient, spec: dict[str, Any]) -> tinker.TrainingClient:
    """Every step follows from its number alone, so that the training can be taken up at any checkpoint."""
    checkpoints = Checkpoints(run, "trained", every=10)
    learner = checkpoints.learner(
        service,
        lambda: service.create_lora_training_client(spec["base_model"], rank=spec["lora_rank"], seed=0).result(),
    )
    tokenizer, progress = learner.get_tokenizer(), Progress(run, steps=spec["steps"], done=checkpoints.step)
    for step in range(checkpoints.step, spec["steps"]):
        batch = random.Random(step).sample(words()[HELD_OUT:], spec["batch_size"])
        data = [example(tokenizer, word) for word in batch]
        gradient = learner.forward_backward(data, "cross_entropy")
        learner.optim_step(AdamParams(learning_rate=spec["optimizer"]["lr"])).result()
        loss = gradient.result().metrics["loss:sum"] / len(data)
        progress.step(tokens=sum(datum.model_input.length for datum in data), loss=loss)
        checkpoints.after(learner, step + 1)
    return learner


def main() -> None:
    run = Run.from_env()
    spec = run.spec()
    run.update(summary="Asking the base model.", deviations=[], original_hypothesis_tested=True)
    run.evidence("train.py", "script", Path(__file__))
    run.evidence("code-revision.json", "code_revision", code_revision(Path(__file__)))
    config = effective_config(model=spec["base_model"], lr=spec["optimizer"]["lr"], steps=spec["steps"])
    run.evidence("effective-config.json", "effective_config", config)

    comparison = Comparison(run, evaluator, arms=("trained", "base"), folder=work_folder())
    comparison.freeze()
    with service_client() as service:
        base = service.create_sampling_client(base_model=spec["base_model"]).result()
        comparison.score(base, base.get_tokenizer(), arm="base", seed=0)

        learner = train(run, service, spec)
        saved = learner.save_weights_for_sampler("trained").result().path
        sampler = service.create_sampling_client(model_path=saved).result()
        comparison.score(sampler, learner.get_tokenizer(), arm="trained", seed=0, checkpoint=saved, step=spec["steps"])

    decision = comparison.conclude()
    run.finish(
        verdict=decision.verdict,
        outcome_reason=decision.outcome_reason,
        summary=f"Accuracy went from {comparison.mean('base'):.3f} to {comparison.mean('trained'):.3f}.",
        original_hypothesis_tested=True,
    )


if __name__ == "__main__":
    main()
