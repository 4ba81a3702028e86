"""What stands between the linear maps of a decoder layer, with fewer passes over memory than the library's own.

Frozen norms need no gradient of their weights, and what backward can make again from what is kept anyway is not kept.
The modules here take the place of those that `transformers` builds for Llama, Qwen2 and Qwen3, under the same names.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spindle.backends import attention


def lighten(decoder: Any) -> None:
    """Replace norms, attention and gated MLPs of a decoder, in place."""
    from transformers.activations import SiLUActivation

    decoder.norm = RmsNorm(decoder.norm)
    for layer in decoder.layers:
        layer.input_layernorm = RmsNorm(layer.input_layernorm)
        layer.post_attention_layernorm = RmsNorm(layer.post_attention_layernorm)
        layer.self_attn = Attention(layer.self_attn)
        if isinstance(layer.mlp.act_fn, (nn.SiLU, SiLUActivation)):
            layer.mlp = GatedMlp(layer.mlp)


class RmsNorm(nn.Module):
    """x / rms(x) * weight (Zhang and Sennrich 2019, arXiv 1910.07467), the division in fp32."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.weight: Tensor = module.weight
        self._eps: float = module.variance_epsilon

    def forward(self, inputs: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return _normed(inputs, _inverse_rms(inputs, self._eps), self.weight)
        result: Tensor = _RmsNorm.apply(inputs, self.weight, self._eps)  # type: ignore[no-untyped-call]
        return result


def _inverse_rms(inputs: Tensor, eps: float) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(inputs, dim=-1, keepdim=True, dtype=torch.float32)
    return norms.square_().div_(inputs.shape[-1]).add_(eps).rsqrt_()


def _normed(inputs: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    return (inputs * scale).to(inputs.dtype).mul_(weight)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = _inverse_rms(inputs, eps)
        ctx.save_for_backward(inputs, weight, scale)
        return _normed(inputs, scale, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """With s = 1 / rms(x), n entries and g = grad * weight: s g - x s^3 (g . x) / n."""
        inputs, weight, scale = ctx.saved_tensors
        wide = inputs.float()
        gradient = grads[0].float() * weight
        products = (gradient * wide).sum(dim=-1, keepdim=True)
        factors = products.mul_(scale**3).div_(-inputs.shape[-1])
        return gradient.mul_(scale).addcmul_(wide, factors).to(inputs.dtype), None, None


class GatedMlp(nn.Module):
    """down(silu(gate(x)) * up(x)) (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = module.gate_proj, module.up_proj, module.down_proj

    def forward(self, inputs: Tensor) -> Tensor:
        gate, up = self.gate_proj(inputs), self.up_proj(inputs)
        outputs: Tensor = self.down_proj(_gated(gate, up))
        return outputs


def _gated(gate: Tensor, up: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return F.silu(gate).mul_(up)
    result: Tensor = _Gated.apply(gate, up)  # type: ignore[no-untyped-call]
    return result


class _Gated(torch.autograd.Function):
    """silu(gate) * up, of which only the two factors are kept."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        (grad,) = grads
        gate, up = ctx.saved_tensors
        grad_gate = grad * up
        torch.ops.aten.silu_backward.grad_input(grad_gate, gate, grad_input=grad_gate)
        return grad_gate, F.silu(gate).mul_(grad)


class Attention(nn.Module):
    """Projections, norms of queries and keys where a family has them, rotary positions, attention, projection."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            getattr(module, f"{letter}_proj") for letter in ("q", "k", "v", "o")
        )
        self.q_norm, self.k_norm = (
            RmsNorm(norm) if (norm := getattr(module, f"{letter}_norm", None)) is not None else nn.Identity()
            for letter in ("q", "k")
        )
        self._layer: int = module.layer_idx
        self._width: int = module.head_dim
        self._scaling: float = module.scaling

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """States [B, T, hidden] to the same; position embeddings are cosines and sines, [B or 1, T, width] each."""
        shape = (*hidden_states.shape[:2], -1, self._width)
        query = _rotated(self.q_norm(self.q_proj(hidden_states).view(shape)), position_embeddings).transpose(1, 2)
        key = _rotated(self.k_norm(self.k_proj(hidden_states).view(shape)), position_embeddings).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self._layer)
        outputs = attention.attention(query, key, value, attention_mask, self._scaling)
        return self.o_proj(outputs.flatten(2)), None


def _rotated(states: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """[B, T, heads, width] turned by its positions (Su et al. 2021, arXiv 2104.09864), first half against second."""
    half = states.shape[-1] // 2
    cosines, sines = (table[..., None, :half] for table in rotary)
    if not torch.is_grad_enabled():
        return _turned(states, cosines, sines)
    result: Tensor = _Rotated.apply(states, cosines, sines)  # type: ignore[no-untyped-call]
    return result


def _turned(states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    outputs = torch.empty_like(states)
    first, second = states.chunk(2, dim=-1)
    out_first, out_second = outputs.chunk(2, dim=-1)
    torch.mul(first, cosines, out=out_first).addcmul_(second, sines, value=-1)
    torch.mul(second, cosines, out=out_second).addcmul_(first, sines)
    return outputs


class _Rotated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        ctx.save_for_backward(cosines, sines)
        return _turned(states, cosines, sines)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cosines, sines = ctx.saved_tensors
        return _turned(grads[0], cosines, -sines), None, None
