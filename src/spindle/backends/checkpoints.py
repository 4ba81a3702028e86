"""Adapters and training states on disk.

A saved adapter is a PEFT directory (`adapter_model.safetensors`, `adapter_config.json`). A saved state adds
`optimizer.safetensors` (what the optimizer remembers, by name) and `state.json` (what is fixed about the model, and its
step). Gradients that no optimizer step has consumed yet are not part of a state.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from spindle.backends.base import Base
from spindle.backends.contract import ADAPTER_FILES, LoraShape, ModelInfo, OptimizerConfig, UserError
from spindle.backends.lora import Adapter, LowRank, Place

ADAPTER_CONFIG, ADAPTER_WEIGHTS = ADAPTER_FILES
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"

_FORMAT = 1
_PREFIX = "base_model.model."


@dataclass(frozen=True)
class SavedState:
    """What `state.json` says."""

    base_model: str
    lora: LoraShape
    optimizer: OptimizerConfig
    step: int


def write_adapter(adapter: Adapter, base_model: str, directory: Path) -> None:
    """Write the PEFT directory of an adapter."""
    tensors = {
        _PREFIX + name: parameter.detach().cpu().contiguous() for name, parameter in adapter.parameters().items()
    }
    save_file(tensors, directory / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": adapter.shape.rank,
        "lora_alpha": adapter.shape.alpha,
        "target_modules": sorted({path.rpartition(".")[2] for path in adapter.pairs}),
        "bias": "none",
        "lora_dropout": 0.0,
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    _write_json(directory / ADAPTER_CONFIG, config)


def write_state(adapter: Adapter, info: ModelInfo, remembered: Mapping[str, Tensor], directory: Path) -> None:
    """Write everything that training needs to go on, `remembered` being what the optimizer keeps between steps."""
    write_adapter(adapter, info.base_model, directory)
    save_file({name: tensor.cpu().contiguous() for name, tensor in remembered.items()}, directory / OPTIMIZER)
    state = {
        "format": _FORMAT,
        "base_model": info.base_model,
        "architecture": info.architecture,
        "lora": asdict(info.lora),
        "optimizer": asdict(info.optimizer),
        "step": info.step,
    }
    _write_json(directory / STATE, state)


def read_state(directory: Path) -> SavedState:
    """Raises `UserError` where `directory` is not a saved state."""
    state = _read_json(directory / STATE, "a saved training state")
    return SavedState(
        base_model=state["base_model"],
        lora=LoraShape(**state["lora"]),
        optimizer=OptimizerConfig(**state["optimizer"]),
        step=state["step"],
    )


def read_optimizer(directory: Path) -> dict[str, Tensor]:
    """What the optimizer remembered, with the types and shapes that it had."""
    return _read_tensors(directory / OPTIMIZER)


def trained_on(directory: Path) -> str:
    """The base model of a saved adapter, or of the state that it is part of."""
    name: str = _read_json(directory / ADAPTER_CONFIG, "a saved adapter")["base_model_name_or_path"]
    return name


def read_adapter(base: Base, directory: Path) -> Adapter:
    """A saved adapter, frozen, for sampling. Raises `UserError` where it is missing or made for another base model."""
    config = _read_json(directory / ADAPTER_CONFIG, "a saved adapter")
    trained_on = config["base_model_name_or_path"]
    if trained_on != base.info.name:
        raise UserError(
            f"the adapter in {directory} was trained on {trained_on!r} and cannot be used with {base.info.name!r}; "
            f"ask for a sampling client of {trained_on!r}."
        )
    shape = LoraShape(rank=config["r"], alpha=config["lora_alpha"])
    tensors = _read_tensors(directory / ADAPTER_WEIGHTS)
    pairs = {
        place.path: LowRank(
            a=tensors[_name(place, "A")].to(base.device, torch.float32),
            b=tensors[_name(place, "B")].to(base.device, torch.float32),
            scaling=shape.alpha / shape.rank,
        )
        for place in base.places
        if _name(place, "A") in tensors
    }
    return Adapter(shape=shape, pairs=pairs)


def copy_adapter(directory: Path, adapter: Adapter) -> None:
    """Overwrite an adapter's weights with saved ones. Raises `UserError`, the adapter untouched, if they differ in
    shape."""
    tensors = _read_tensors(directory / ADAPTER_WEIGHTS)
    parameters = adapter.parameters()
    expected = {_PREFIX + name: list(parameter.shape) for name, parameter in parameters.items()}
    found = {name: list(tensor.shape) for name, tensor in tensors.items()}
    if expected != found:
        name = min(name for name in {*expected, *found} if expected.get(name) != found.get(name))
        raise UserError(
            f"the weights in {directory} do not fit this model: {name} is {found.get(name, 'absent')} there and "
            f"{expected.get(name, 'absent')} here; create the model with the rank and the parts of the saved one."
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[_PREFIX + name])


def _name(place: Place, matrix: str) -> str:
    return f"{_PREFIX}{place.path}.lora_{matrix}.weight"


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _read_json(file: Path, what: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{file.parent} is not {what}: it has no {file.name}; save it again.") from None
    except ValueError as error:
        raise UserError(f"{file} is damaged ({error}); use another checkpoint.") from None
    return value


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(file)
    except FileNotFoundError:
        raise UserError(f"{file.parent} has no {file.name}; save the checkpoint again.") from None
    except SafetensorError as error:
        raise UserError(f"{file} is damaged ({error}); use another checkpoint.") from None
    return tensors
