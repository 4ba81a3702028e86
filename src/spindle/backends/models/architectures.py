"""Which architectures Spindle serves, found out without importing torch or transformers."""

import ast
import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LAYERED = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Those whose layers Spindle runs itself; all others go through the library's own forward pass."""


def resolve(config: Mapping[str, Any]) -> str | None:
    """The class of `transformers` that serves a model with this configuration as a causal language model.

    The class that the configuration names, if it is one; else the one that the library has for its model type, which is
    how a model with images beside its text is served by its text part. None where there is neither.
    """
    declared = [str(name) for name in config.get("architectures") or ()]
    if declared and declared[0] in LAYERED:
        return declared[0]
    known = causal_language_models()
    candidates = [name for name in declared if name in known.values()]
    for name in (*candidates, known.get(str(config.get("model_type")))):
        if name is not None and not name.endswith("ForConditionalGeneration"):
            return name
    return None


def is_layered(architecture: str, config: Mapping[str, Any]) -> bool:
    """Whether a model's layers are all of the kind that Spindle runs itself: full attention, nothing but text."""
    sliding = "sliding_attention" in (config.get("layer_types") or ()) or bool(config.get("use_sliding_window"))
    return architecture in LAYERED and not sliding


@functools.cache
def causal_language_models() -> Mapping[str, str]:
    """Class names by model type, read from the source of the installed `transformers`: importing it takes seconds."""
    package = importlib.util.find_spec("transformers")
    if package is None or package.origin is None:
        return {}
    source = (Path(package.origin).parent / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")], value=ast.Call(args=[pairs])):
                return dict(ast.literal_eval(pairs))
    return {}
