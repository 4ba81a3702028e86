"""What training scripts do, with the stock SDK against a server process."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tinker
import torch
from tinker import types
from tinker.types.optimizer import OptimizerConfigBase

from tests.conformance.data import TEXT, logprobs, policy, prompt, supervised
from tests.servers import MODEL

ADAM = types.AdamParams(learning_rate=1e-2, eps=1e-8)


def test_supervised_learning_lowers_the_loss(training: tinker.TrainingClient) -> None:
    losses = []
    for _ in range(8):
        gradient = training.forward_backward([supervised()] * 3, "cross_entropy")
        step = training.optim_step(ADAM)
        result = gradient.result(60)
        losses.append(result.metrics["loss:sum"])
        assert step.result(60).metrics is not None
        assert losses[-1] == pytest.approx(-float(np.sum(logprobs(result))), rel=1e-5)
    assert losses[-1] < 0.8 * losses[0]


def test_reinforcement_learning_raises_the_rewarded_token(training: tinker.TrainingClient) -> None:
    """The reward is the share of sampled tokens in the lower half of the vocabulary."""
    rewarded: list[float] = []
    for step in range(8):
        sampler = training.save_weights_and_get_sampling_client().result(60)
        groups = [
            sampler.sample(prompt(), 16, types.SamplingParams(max_tokens=2, seed=2 * step + group))
            for group in range(2)
        ]
        data = []
        for group in groups:
            sequences = group.result(60).sequences
            rewards = np.asarray([np.mean([token < 128 for token in sequence.tokens]) for sequence in sequences])
            rewarded.append(float(rewards.mean()))
            data += [
                policy(TEXT, sequence, float(advantage))
                for sequence, advantage in zip(sequences, rewards - rewards.mean(), strict=True)
            ]
        gradient = training.forward_backward(data, "importance_sampling")
        applied = training.optim_step(types.AdamParams(learning_rate=3e-2, eps=1e-8))
        gradient.result(60)
        applied.result(60)
    assert np.mean(rewarded[-4:]) > np.mean(rewarded[:4]) + 0.2


def test_the_sampler_and_the_learner_agree_on_logprobs(training: tinker.TrainingClient) -> None:
    training.forward_backward([supervised()], "cross_entropy").result(60)
    training.optim_step(ADAM).result(60)
    sampler = training.save_weights_and_get_sampling_client().result(60)
    sequence = sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=12, seed=3)).result(60).sequences[0]
    learner = training.forward([policy(TEXT, sequence, 1.0)], "importance_sampling").result(60)
    assert sequence.logprobs is not None
    assert np.allclose(logprobs(learner)[0][len(TEXT) - 1 :], sequence.logprobs, atol=1e-4)
    whole = sampler.compute_logprobs(prompt(TEXT + list(sequence.tokens))).result(60)
    assert whole[0] is None
    assert np.allclose(np.asarray(whole[len(TEXT) :], float), sequence.logprobs, atol=1e-4)


def test_forward_leaves_the_gradient_alone(training: tinker.TrainingClient) -> None:
    training.forward([supervised()], "cross_entropy").result(60)
    metrics = training.optim_step(ADAM).result(60).metrics
    assert metrics is not None
    assert metrics["grad_norm"] == 0.0


def test_a_custom_loss_computed_by_the_client_gives_the_gradient_of_the_built_in_one(
    service: tinker.ServiceClient,
) -> None:
    def negative_likelihood(_: list[types.Datum], likelihoods: list[Any]) -> tuple[Any, dict[str, float]]:
        loss = -torch.stack([likelihood.sum() for likelihood in likelihoods]).sum()
        return loss, {"custom": 1.0}

    norms = []
    for custom in (True, False):
        client = service.create_lora_training_client(base_model=MODEL, rank=4, seed=5).result(60)
        if custom:
            gradient = client.forward_backward_custom([supervised()], negative_likelihood)
        else:
            gradient = client.forward_backward([supervised()], "cross_entropy")
        step = client.optim_step(ADAM).result(60)
        assert gradient.result(60).metrics["loss:sum"] > 0
        assert step.metrics is not None
        norms.append(step.metrics["grad_norm"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_what_is_fixed_is_told_before_the_first_update(service: tinker.ServiceClient) -> None:
    fixed = OptimizerConfigBase(type="adamw", learning_rate=1e-2, eps=1e-8)  # type: ignore[call-arg]
    training = service.create_lora_training_client(
        base_model=MODEL, rank=4, seed=11, train_unembed=False, optimizer=fixed
    ).result(60)
    info = training.get_info()
    assert info.model_name == MODEL
    assert info.model_data.tokenizer_id == MODEL
    assert info.lora_rank == 4
    config = info.optimizer_config.model_dump()
    assert config["type"] == "adamw"
    assert config["learning_rate"] == 1e-2
    assert config["eps"] == 1e-8
    assert config["init_seed"] == 11
    assert config["step"] == 0
    assert config["lora"]["train_unembed"] is False
    with pytest.raises(tinker.RequestFailedError, match=r"learning_rate was fixed at 0\.01"):
        training.optim_step(types.AdamParams(learning_rate=0.5, eps=1e-8)).result(60)
    applied = training.optim_step(ADAM).result(60).metrics
    assert applied is not None
    assert applied["learning_rate"] == 1e-2
    assert applied["eps"] == 1e-8
    assert applied["beta1"] == 0.9
    assert applied["optimizer_step"] == 1


def test_an_unseeded_adapter_reports_the_seed_it_drew(service: tinker.ServiceClient) -> None:
    seeds = set()
    for _ in range(2):
        training = service.create_lora_training_client(base_model=MODEL, rank=4).result(60)
        seeds.add(training.get_info().optimizer_config.model_dump()["init_seed"])
    assert None not in seeds
    assert len(seeds) == 2


def test_mistakes_fail_their_request_and_the_loop_goes_on(training: tinker.TrainingClient) -> None:
    short = supervised()
    short.loss_fn_inputs["weights"] = types.TensorData.from_numpy(np.ones(3, np.float32))
    with pytest.raises(tinker.RequestFailedError, match="nonsense") as bad_loss:
        training.forward_backward([supervised()], "nonsense").result(60)  # type: ignore[arg-type]
    assert bad_loss.value.category is types.RequestErrorCategory.User
    with pytest.raises(tinker.RequestFailedError, match=r"weights") as bad_shape:
        training.forward_backward([supervised(), short], "cross_entropy").result(60)
    assert bad_shape.value.category is types.RequestErrorCategory.User
    with pytest.raises(tinker.RequestFailedError, match="dimuon"):
        training.optim_step(types.DimuonParams(learning_rate=0.1)).result(60)
    with pytest.raises(tinker.RequestFailedError, match="cannot name a checkpoint"):
        training.save_state("a/b").result(60)
    untouched = training.optim_step(ADAM).result(60).metrics
    assert untouched is not None
    assert untouched["grad_norm"] == 0.0
    training.forward_backward([supervised()], "cross_entropy").result(60)
    moved = training.optim_step(ADAM).result(60).metrics
    assert moved is not None
    assert moved["grad_norm"] > 0.0


def test_a_base_model_that_is_not_served_is_named(service: tinker.ServiceClient) -> None:
    with pytest.raises(tinker.BadRequestError, match="org/absent"):
        service.create_lora_training_client(base_model="org/absent").result(60)
    with pytest.raises(tinker.NotFoundError, match=f"it serves {MODEL}"):
        service.create_sampling_client(base_model="org/absent").result(60)


def test_a_large_batch_is_split_and_gives_the_same_gradient(service: tinker.ServiceClient) -> None:
    """2,600 datums leave the client as three requests, the first one last."""
    norms = []
    for size in (1300, 2600):
        client = service.create_lora_training_client(base_model=MODEL, rank=4, seed=5).result(60)
        data = [supervised(TEXT[: 4 + index % 3], weight=1300 / size) for index in range(1300)] * (size // 1300)
        gradient, step = client.forward_backward(data, "cross_entropy"), client.optim_step(ADAM)
        result = gradient.result(120)
        lengths = [len(values) for values in logprobs(result)]
        assert lengths == [3 + index % 3 for index in range(1300)] * (size // 1300)
        metrics = step.result(120).metrics
        assert metrics is not None
        assert metrics["optimizer_step"] == 1
        norms.append(metrics["grad_norm"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


def test_two_training_clients_at_once_do_not_disturb_each_other(service: tinker.ServiceClient) -> None:
    def run(_: int) -> list[float]:
        client = service.create_lora_training_client(base_model=MODEL, rank=4, seed=5).result(60)
        losses = []
        for _ in range(4):
            gradient = client.forward_backward([supervised()], "cross_entropy")
            client.optim_step(ADAM)
            losses.append(gradient.result(60).metrics["loss:sum"])
        return losses

    alone = run(0)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, range(2)))
    assert together[0] == pytest.approx(alone, rel=1e-5)
    assert together[1] == pytest.approx(alone, rel=1e-5)


def test_the_asynchronous_way(service: tinker.ServiceClient) -> None:
    import asyncio

    async def loop() -> tuple[float, int]:
        training = await service.create_lora_training_client(base_model=MODEL, rank=4)
        gradient, step = training.forward_backward([supervised()], "cross_entropy"), training.optim_step(ADAM)
        loss = (await gradient).metrics["loss:sum"]
        await step
        sampler = await training.save_weights_and_get_sampling_client()
        samples = await asyncio.gather(
            *(sampler.sample(prompt(), 1, types.SamplingParams(max_tokens=5)) for _ in range(8))
        )
        saved = await training.save_state("async")
        restored = await service.create_training_client_from_state_with_optimizer(saved.path)
        return loss, len(samples) + restored.get_info().optimizer_config.model_dump()["step"]

    loss, count = asyncio.run(loop())
    assert loss > 0
    assert count == 9
