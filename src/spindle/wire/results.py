"""What goes back to the client as JSON."""

from typing import Any

from spindle.backends.contract import ForwardBackwardResult, LoraShape, ModelInfo, OptimizerConfig, SampleResult
from spindle.control.records import Checkpoint
from spindle.control.results import (
    ExternalSaved,
    LossStored,
    ModelCreated,
    ModelUnloaded,
    Result,
    SamplerSaved,
    StateSaved,
    StepApplied,
    WeightsLoaded,
)
from spindle.wire.codec import gradient_json, sample_json

Json = dict[str, Any]

CLIENT_CONFIG: Json = {
    "pjwt_auth_enabled": False,
    "proto_write_fwdbwd": True,
    "fwd_via_fwdbwd": True,
    "proto_compress_fwdbwd": True,
    "parallel_fwdbwd_chunks": True,
    "create_model_via_load_weights": True,
    "sample_join_sampling_session": True,
    "sample_use_retrieve_futures": True,
    "custom_loss_server_side": True,
}
"""Flags of `client/config`: only what this server does."""

DYNAMIC_CONFIG: Json = {"refresh_interval_sec": 300, "sample_cancel_enabled": True}


def promise_result(result: Result) -> Json:
    """The JSON form of a result."""
    match result:
        case ModelCreated(model_id):
            return {"type": "create_model", "model_id": model_id}
        case ModelUnloaded(model_id):
            return {"type": "unload_model", "model_id": model_id}
        case LossStored(loss_id):
            return {"type": "create_custom_loss", "loss_id": loss_id}
        case StepApplied(metrics):
            return {"metrics": metrics}
        case StateSaved(path):
            return {"type": "save_weights", "path": path}
        case SamplerSaved(path, sampling_session_id):
            saved = {"path": path, "sampling_session_id": sampling_session_id}
            return {"type": "save_weights_for_sampler"} | {key: value for key, value in saved.items() if value}
        case ExternalSaved(path, size_bytes):
            return {"type": "save_weights_external", "path": path, "size_bytes": size_bytes}
        case WeightsLoaded(path, model_id):
            return {"type": "load_weights", "path": path, "model_id": model_id}
        case ForwardBackwardResult():
            return gradient_json(result)
        case SampleResult():
            return sample_json(result)


def optimizer_config(optimizer: OptimizerConfig, lora: LoraShape, step: int, *, whole: bool) -> Json:
    """Everything that is fixed about a run, in the one place that clients hand on to their users as it stands.

    The family alone, not the `whole`, for clients that refuse to read more.
    """
    if not whole:
        return {"type": optimizer.type}
    return {
        "type": optimizer.type,
        **optimizer.fixed,
        **({"plugin_sha256": optimizer.plugin_sha256} if optimizer.plugin_sha256 else {}),
        "step": step,
        "init_seed": lora.seed,
        "lora": {
            "rank": lora.rank,
            "alpha": lora.alpha,
            "train_attn": lora.train_attn,
            "train_mlp": lora.train_mlp,
            "train_unembed": lora.train_unembed,
        },
    }


def model_info(info: ModelInfo, *, whole: bool) -> Json:
    return {
        "type": "get_info",
        "model_id": info.model_id,
        "model_data": {
            "arch": info.architecture,
            "model_name": info.base_model,
            "tokenizer_id": info.base_model,
        },
        "model_name": info.base_model,
        "is_lora": True,
        "lora_rank": info.lora.rank,
        "optimizer_config": optimizer_config(info.optimizer, info.lora, info.step, whole=whole),
    }


def weights_info(checkpoint: Checkpoint, *, whole: bool) -> Json:
    lora = checkpoint.lora
    return {
        "base_model": checkpoint.base_model,
        "is_lora": True,
        "lora_rank": lora.rank,
        "train_unembed": lora.train_unembed,
        "train_mlp": lora.train_mlp,
        "train_attn": lora.train_attn,
        "optimizer_config": optimizer_config(checkpoint.optimizer, lora, checkpoint.step, whole=whole),
    }
