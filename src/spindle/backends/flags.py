"""Which field of `LoraShape` covers a linear map, told from its module path; without torch."""

import re
from typing import Literal

Flag = Literal["train_attn", "train_mlp", "train_unembed"]

_ATTENTION = re.compile(r"attn|attention|mamba|ssm|recurrent|temporal_block|conv")
_MLP = re.compile(r"mlp|ffn|ffw|feed_?forward|moe|shared_expert|intermediate")
_MLP_LEAF = re.compile(r"(gate|up|down|gate_up)_proj|fc\d|fc_(in|out)|c_fc|dense_h_to_4h|dense_4h_to_h")
_ROUTER = re.compile(r"gate|router|shared_expert_gate")


def flag_of(path: str) -> Flag | None:
    """The flag of a linear map inside a network's layers, or None where adapters have no place.

    Attention includes what stands in its stead in a hybrid layer (linear attention, state space, convolution). Routers
    and routed experts of a mixture are left alone: which few experts a token passes would change with the adapter.
    """
    *blocks, leaf = path.split(".")
    if "experts" in blocks or any(map(_ROUTER.fullmatch, (*blocks, leaf))):
        return None
    for block in reversed(blocks):
        if _ATTENTION.search(block):
            return "train_attn"
        if _MLP.search(block):
            return "train_mlp"
    if _MLP_LEAF.fullmatch(leaf):
        return "train_mlp"
    return "train_attn" if "mixer" in blocks else None
