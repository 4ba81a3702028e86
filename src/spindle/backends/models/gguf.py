"""From a GGUF file to a directory in the Hugging Face layout: fp32 weights, and the tokenizer put right."""

import json
from pathlib import Path
from typing import Any

from spindle.backends.threads import share_cores

DIGITS_THEN_BYTES = ("smollm",)
"""GGUF pre-tokenizers that split off single digits and then work on bytes."""

_CONTROL_TOKEN = 3


def convert(gguf_file: Path, target: Path) -> None:
    """Write config.json, model.safetensors, tokenizer.json and tokenizer_config.json into the new folder `target`."""
    share_cores()
    import torch

    from spindle.backends.quiet import quiet_transformers

    with quiet_transformers():
        from transformers import LlamaForCausalLM

        model = LlamaForCausalLM.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32)
        metadata = _metadata(gguf_file)
        for config in (model.config, model.generation_config):
            config.bos_token_id = metadata["tokenizer.ggml.bos_token_id"]
            config.eos_token_id = metadata["tokenizer.ggml.eos_token_id"]
            config.pad_token_id = metadata["tokenizer.ggml.padding_token_id"]
        model.save_pretrained(target)
    write_tokenizer(metadata, target, context_length=model.config.max_position_embeddings)


def _metadata(gguf_file: Path) -> dict[str, Any]:
    from gguf import GGUFReader

    reader = GGUFReader(gguf_file)
    return {key: field.contents() for key, field in reader.fields.items()}


def write_tokenizer(metadata: dict[str, Any], target: Path, *, context_length: int) -> None:
    """Write the tokenizer that the GGUF metadata describes.

    `transformers` reads such a tokenizer as a Llama one: it then encodes digits in groups, adds a beginning of sequence
    and ends at the wrong token.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if metadata["tokenizer.ggml.pre"] not in DIGITS_THEN_BYTES:
        raise ValueError(f"GGUF pre-tokenizer {metadata['tokenizer.ggml.pre']!r} is not one of {DIGITS_THEN_BYTES}")
    tokens = metadata["tokenizer.ggml.tokens"]
    kinds = metadata["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    merges = [(left, right) for left, right in (merge.split(" ") for merge in metadata["tokenizer.ggml.merges"])]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(target / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[metadata["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"]],
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (target / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
