"""What a model directory must hold to be served, found out without loading it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spindle.backends.contract import BaseModel

SUPPORTED_ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


class ModelError(Exception):
    """A model that cannot be installed or served; the text says what, where, and what to do."""


@dataclass(frozen=True)
class InstalledModel:
    """A model directory under the name clients ask for."""

    name: str
    """Hugging Face id, e.g. `HuggingFaceTB/SmolLM2-135M-Instruct`."""
    path: Path
    """Directory with config.json, safetensors and tokenizer."""
    source: str
    """Where it came from, for people: a package, the address at a hub, or a local directory."""


def inspect(name: str, path: Path, *, weights: bool = True) -> BaseModel:
    """Read a model directory's configuration; `weights` False where those are yet to come.

    Raises `ModelError` if Spindle cannot serve it."""
    config = _read_config(name, path)
    architecture = _architecture(name, path, config)
    if "sliding_attention" in (config.get("layer_types") or ()) or config.get("use_sliding_window"):
        raise ModelError(
            f"Model {name!r} in {path} uses sliding-window attention, which Spindle does not compute; "
            "serve a model whose layers all attend to the full context."
        )
    if weights and not any(path.glob("*.safetensors")):
        raise ModelError(
            f"Model {name!r}: {path} holds no *.safetensors file; save the weights there with "
            "`model.save_pretrained(directory)`."
        )
    return BaseModel(
        name=name,
        path=path,
        architecture=architecture,
        context_length=_positive(name, path, config, "max_position_embeddings"),
        vocabulary=_positive(name, path, config, "vocab_size"),
    )


def _read_config(name: str, path: Path) -> dict[str, Any]:
    file = path / "config.json"
    if not file.is_file():
        raise ModelError(
            f"Model {name!r}: {file} does not exist; give a directory in the Hugging Face layout "
            "(config.json, *.safetensors, tokenizer.json)."
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"Model {name!r}: {file} is not JSON ({error}); copy the model directory again.") from None
    if not isinstance(config, dict):
        raise ModelError(f"Model {name!r}: {file} must hold a JSON object, found {type(config).__name__}.")
    return config


def _architecture(name: str, path: Path, config: dict[str, Any]) -> str:
    declared = config.get("architectures") or []
    for architecture in declared:
        if architecture in SUPPORTED_ARCHITECTURES:
            return str(architecture)
    raise ModelError(
        f"Model {name!r} in {path} has the architecture {', '.join(map(str, declared)) or 'none'}; "
        f"Spindle serves {', '.join(SUPPORTED_ARCHITECTURES)}."
    )


def _positive(name: str, path: Path, config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or value < 1:
        raise ModelError(
            f"Model {name!r}: {path / 'config.json'} must state {key} as a positive number, found {value!r}."
        )
    return value
