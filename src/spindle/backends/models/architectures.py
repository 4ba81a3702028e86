"""Which architectures Spindle serves, found out without importing torch."""

import ast
import functools
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LAYERED = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Those whose layers Spindle runs itself; all others go through the library's own forward pass."""


def is_layered(model: Path) -> bool:
    """Whether a model directory's layers are all of the kind that Spindle runs itself."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    sliding = "sliding_attention" in (config.get("layer_types") or ()) or bool(config.get("use_sliding_window"))
    return not sliding and any(architecture in LAYERED for architecture in config.get("architectures") or ())


@functools.cache
def causal_language_models() -> Mapping[str, str]:
    """Class names of the installed `transformers` by model type, read from its source: importing it takes seconds."""
    package = importlib.util.find_spec("transformers")
    if package is None or package.origin is None:
        return {}
    source = (Path(package.origin).parent / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and _names(statement) == ["MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"]:
            pairs: Any = ast.literal_eval(statement.value.args[0])  # type: ignore[attr-defined]
            return dict(pairs)
    return {}


def _names(statement: ast.Assign) -> list[str]:
    return [target.id for target in statement.targets if isinstance(target, ast.Name)]
