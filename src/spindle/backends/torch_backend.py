"""The contract fulfilled with torch: models in training, and saved adapters to sample from."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from spindle.backends import checkpoints, graphs, learner, losses, optimizers
from spindle.backends.base import Base
from spindle.backends.bases import Bases
from spindle.backends.contract import (
    BaseModel,
    CustomLoss,
    ForwardBackward,
    ForwardBackwardResult,
    LoraShape,
    ModelInfo,
    OptimizerConfig,
    OptimizerStep,
    PluginInfo,
    SampleRequest,
    SampleResult,
    UserError,
)
from spindle.backends.lora import create_adapter, selected
from spindle.backends.plugins import Plugins
from spindle.backends.sampler import Sampler
from spindle.backends.snapshots import Snapshots

MOST_RANK = 256
"""Rank of an adapter; a slip of the finger must not take the machine's memory."""


class _Model:
    """One model in training: its adapter, the gradient so far, and its optimizer."""

    def __init__(self, base: Base, info: ModelInfo, family: optimizers.Family) -> None:
        self.base = base
        self.info = info
        self.adapter = create_adapter(selected(base.places, info.lora), info.lora, base.device)
        self.optimizer = optimizers.Optimizer(family, self.adapter)
        self.gradient: dict[str, Tensor] = {}

    def add(self, gradient: Mapping[str, Tensor]) -> None:
        for name, part in gradient.items():
            self.gradient[name] = self.gradient[name].add_(part) if name in self.gradient else part

    def load(self, directory: Path, *, step: int, with_optimizer: bool) -> None:
        state = checkpoints.read_optimizer(directory) if with_optimizer else {}
        checkpoints.copy_adapter(directory, self.adapter)
        self.optimizer.restore(state)
        self.gradient = {}
        self.info = replace(self.info, step=step if with_optimizer else 0)


class TorchBackend:
    """Executes training and sampling in this process. Base weights load in the background from construction on."""

    def __init__(
        self,
        models: Sequence[BaseModel],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        plugins: Plugins | None = None,
    ) -> None:
        added = plugins or Plugins()
        self._bases = Bases(models, device, dtype)
        self._plugins = added.files
        self._losses = {**losses.LOSSES, **added.losses}
        self._families = {**optimizers.FAMILIES, **added.families}
        self._models: dict[str, _Model] = {}
        self._snapshots = Snapshots()

    def base_models(self) -> list[BaseModel]:
        return list(self._bases.infos.values())

    def plugins(self) -> list[PluginInfo]:
        return list(self._plugins)

    def check_model(self, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> None:
        self._bases.check(base_model)
        _check_lora(lora)
        optimizers.settled(optimizer, self._families)

    def check_custom_loss(self, loss: CustomLoss) -> None:
        graphs.parse(loss)

    def create_model(self, model_id: str, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> None:
        self.check_model(base_model, lora, optimizer)
        base = self._bases.get(base_model)
        shape = lora if lora.seed is not None else replace(lora, seed=secrets.randbits(31))
        config = optimizers.settled(optimizer, self._families)
        info = ModelInfo(model_id, base_model, base.info.architecture, shape, config, step=0)
        self._models[model_id] = _Model(base, info, self._families[config.type])

    def info(self, model_id: str) -> ModelInfo:
        return self._model(model_id).info

    def forward_backward(self, requests: Sequence[ForwardBackward]) -> list[ForwardBackwardResult | UserError]:
        answers: dict[int, ForwardBackwardResult | UserError] = {}
        jobs: dict[Base, dict[int, learner.Job]] = {}
        for index, request in enumerate(requests):
            try:
                model = self._model(request.model_id)
                chosen = self._chosen_loss(request)
            except UserError as error:
                answers[index] = error
            else:
                jobs.setdefault(model.base, {})[index] = learner.Job(model.adapter, request, chosen)
        outcomes: dict[int, learner.Learned | UserError] = {}
        for base, on_base in jobs.items():
            outcomes |= zip(on_base, learner.run(base, list(on_base.values())), strict=True)
        # Nothing fails from here on: a crash on the way has left no gradient of any request.
        for index in sorted(outcomes):
            outcome = outcomes[index]
            if isinstance(outcome, UserError):
                answers[index] = outcome
            else:
                self._models[requests[index].model_id].add(outcome.gradient)
                answers[index] = outcome.result
        return [answers[index] for index in range(len(requests))]

    def _chosen_loss(self, request: ForwardBackward) -> losses.Chosen:
        if request.custom is not None:
            return losses.Chosen(graphs.as_loss(request.custom), {})
        return losses.choose(request.loss_fn, request.config, self._losses)

    def optim_step(self, model_id: str, step: OptimizerStep) -> dict[str, float]:
        model = self._model(model_id)
        values = optimizers.applied(step, model.info.optimizer, model.optimizer.family)
        number = model.info.step + 1
        metrics = model.optimizer.step(model.gradient, values, number)
        model.gradient = {}
        model.info = replace(model.info, step=number)
        return metrics

    def save_adapter(self, model_id: str, directory: Path) -> None:
        model = self._model(model_id)
        checkpoints.write_adapter(model.adapter, model.info.base_model, directory)

    def save_state(self, model_id: str, directory: Path) -> None:
        model = self._model(model_id)
        checkpoints.write_state(model.adapter, model.info, model.optimizer.state(), directory)

    def load_state(self, model_id: str, directory: Path, *, with_optimizer: bool) -> None:
        model = self._model(model_id)
        saved = checkpoints.read_state(directory) if with_optimizer else None
        trained_on = checkpoints.trained_on(directory)
        if trained_on != model.info.base_model:
            raise UserError(
                f"the state in {directory} is of {trained_on!r}, but model {model_id!r} trains "
                f"{model.info.base_model!r}; load it into a model of {trained_on!r}."
            )
        if saved is not None:
            optimizers.check_restorable(saved.optimizer, model.info.optimizer)
        model.load(directory, step=0 if saved is None else saved.step, with_optimizer=with_optimizer)

    def create_model_from_state(
        self, model_id: str, directory: Path, optimizer: OptimizerConfig | None, *, with_optimizer: bool
    ) -> None:
        saved = checkpoints.read_state(directory)
        config = optimizers.settled(optimizer or saved.optimizer, self._families)
        if with_optimizer:
            optimizers.check_restorable(saved.optimizer, config)
        base = self._bases.get(saved.base_model)
        info = ModelInfo(model_id, saved.base_model, base.info.architecture, saved.lora, config, step=0)
        model = _Model(base, info, self._families[config.type])
        model.load(directory, step=saved.step, with_optimizer=with_optimizer)
        self._models[model_id] = model

    def sample(self, requests: Sequence[SampleRequest]) -> list[SampleResult | UserError]:
        answers: dict[int, SampleResult | UserError] = {}
        for name in dict.fromkeys(request.base_model for request in requests):
            keys = [key for key, request in enumerate(requests) if request.base_model == name]
            try:
                batch = self.sampling(name)
            except UserError as error:
                answers |= dict.fromkeys(keys, error)
                continue
            for key in keys:
                batch.add(key, requests[key])
            while not answers.keys() >= set(keys):
                answers |= batch.step()
        return [answers[key] for key in range(len(requests))]

    def sampling(self, base_model: str) -> Sampler:
        base = self._bases.get(base_model)
        return Sampler(base, lambda directory: self._snapshots.get(base, directory))

    def unload_model(self, model_id: str) -> None:
        self._models.pop(model_id, None)

    def _model(self, model_id: str) -> _Model:
        if model_id not in self._models:
            raise UserError(f"model {model_id!r} is not loaded: it was unloaded or never created; create it again.")
        return self._models[model_id]


def _check_lora(lora: LoraShape) -> None:
    if not 1 <= lora.rank <= MOST_RANK:
        raise UserError(f"rank must be from 1 to {MOST_RANK}, found {lora.rank}.")
    if lora.seed is not None and not 0 <= lora.seed < 1 << 63:
        raise UserError(f"seed must be from 0 to {(1 << 63) - 1}, found {lora.seed}.")
    if not (lora.train_attn or lora.train_mlp or lora.train_unembed):
        raise UserError("train_attn, train_mlp and train_unembed are all false; set at least one to true.")
