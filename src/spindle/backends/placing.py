"""Which part of a network a linear map belongs to, told from its module path."""

import re

from spindle.backends.lora import Flag

_ATTENTION = re.compile(r"attn|attention|mamba|ssm|mixer|recurrent|temporal_block|conv")
_MLP = re.compile(r"mlp|ffn|ffw|feed_?forward|moe|shared_expert|intermediate")
_MLP_LEAF = re.compile(r"(gate|up|down|gate_up)_proj|fc\d|fc_(in|out)|c_fc|dense_h_to_4h|dense_4h_to_h")
_ROUTER = re.compile(r"gate|router|shared_expert_gate")


def flag_of(path: str) -> Flag | None:
    """The field of `LoraShape` that covers a linear map, or None where adapters have no place.

    Attention includes what stands in its stead in a hybrid layer (linear attention, state space, convolution). Routers
    and routed experts of a mixture are left alone: which few experts a token passes would change with the adapter.
    """
    *blocks, leaf = path.split(".")
    if _ROUTER.fullmatch(leaf) or "experts" in blocks:
        return None
    if _MLP_LEAF.fullmatch(leaf):
        return "train_mlp"
    for block in reversed(blocks):
        if _ATTENTION.search(block):
            return "train_attn"
        if _MLP.search(block):
            return "train_mlp"
    return None
