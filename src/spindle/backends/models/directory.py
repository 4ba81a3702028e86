"""What a model directory must hold to be served, found out without loading it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spindle.backends.contract import BaseModel
from spindle.backends.models import architectures

INDEX = "model.safetensors.index.json"
"""Says which file holds each tensor of a model whose weights are in several."""

_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")
"""What configurations call the most tokens of a sequence, the name to ask for first."""


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
    config = read_config(name, path)
    architecture = architectures.resolve(config)
    if architecture is None:
        raise ModelError(_unknown(name, path, config))
    if "quantization_config" in config:
        raise ModelError(
            f"Model {name!r} in {path} holds quantized weights, which Spindle does not compute with; "
            "serve its original weights in float32 or bfloat16."
        )
    if config.get("is_encoder_decoder"):
        raise ModelError(
            f"Model {name!r} in {path} is an encoder and a decoder, but Spindle serves causal language models; "
            "serve a model that is a decoder alone."
        )
    if weights:
        _check_weights(name, path)
    return BaseModel(
        name=name,
        path=path,
        architecture=architecture,
        context_length=_positive(name, path, config, *_CONTEXT),
        vocabulary=_positive(name, path, config, "vocab_size"),
    )


def read_config(name: str, path: Path) -> Mapping[str, Any]:
    """The configuration of a model's text part, under the names of the whole. Raises `ModelError`."""
    config = _read_json(name, path)
    text = config.get("text_config")
    if not isinstance(text, dict):
        return config
    return {**config, **text, "model_type": config.get("model_type"), "architectures": config.get("architectures")}


def _unknown(name: str, path: Path, config: Mapping[str, Any]) -> str:
    declared = ", ".join(map(str, config.get("architectures") or ())) or "none"
    known = len(architectures.causal_language_models())
    return (
        f"Model {name!r} in {path} is of no architecture that Spindle can serve: its architectures ({declared}) and "
        f"its model_type ({config.get('model_type') or 'none'}) were looked for among the {known} causal language "
        f"models of transformers {version('transformers')}; serve one of those as text."
    )


def _check_weights(name: str, path: Path) -> None:
    if not any(path.glob("*.safetensors")):
        raise ModelError(
            f"Model {name!r}: {path} holds no *.safetensors file; save the weights there with "
            "`model.save_pretrained(directory)`."
        )
    index = path / INDEX
    if index.is_file():
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        missing = sorted(file for file in files if not (path / file).is_file())
        if missing:
            raise ModelError(
                f"Model {name!r}: {path} lacks {len(missing)} of {len(files)} weight files, such as {missing[0]}; "
                "copy the model directory again."
            )


def _read_json(name: str, path: Path) -> dict[str, Any]:
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


def _positive(name: str, path: Path, config: Mapping[str, Any], key: str, *aliases: str) -> int:
    value = next((config[alias] for alias in (key, *aliases) if config.get(alias) is not None), None)
    if not isinstance(value, int) or value < 1:
        raise ModelError(
            f"Model {name!r}: {path / 'config.json'} must state {key} as a positive number, found {value!r}."
        )
    return value
