"""Attention of whole prompts, of packed sequences, and of single tokens on a cache."""

import torch
import torch.nn.functional as F
from torch import Tensor

from spindle.backends.packing import Plan


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Plan | None, scaling: float) -> Tensor:
    """query [B, heads, T, D], key and value [B, key/value heads, L, D] to [B, T, heads, D].

    Without a mask it is causal, T = L: sequences padded on the right need none. A plan says which rows of a packed
    batch attend to which.
    """
    if isinstance(mask, Plan):
        return mask.attend(query, key, value, scaling)
    if mask is not None and query.shape[2] == 1 and query.dtype == torch.float32:
        return _one_token(query, key, value, mask, scaling)
    outputs = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scaling,
        enable_gqa=True,
    )
    return outputs.transpose(1, 2)


def _one_token(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float) -> Tensor:
    """Attention of a single token per row, without copies of the keys and values that heads share.

    A row's result does not depend, to the bit, on the other rows, nor on how many masked positions follow its own.
    """
    rows, heads, _, width = query.shape
    shared = query.reshape(rows * key.shape[1], -1, width)
    scores = torch.bmm(shared, key.flatten(0, 1).transpose(1, 2)).mul_(scaling)
    scores.view(rows, heads, -1).add_(mask[:, 0])
    outputs = torch.bmm(torch.softmax(scores, dim=-1), value.flatten(0, 1))
    return outputs.view(rows, 1, heads, width)
