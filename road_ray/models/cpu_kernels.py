"""Dropout and attention that train faster on a CPU; other devices use those of PyTorch.

PyTorch draws a Bernoulli number in about 6 ns on most CPUs, and its attention with dropout computes
in fp32 for inputs of any dtype. Names, weights and saved configurations do not change."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "road_ray"
FULL_ATTENTION = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
_LEVELS = 1 << 16  # of probability: 16 random bits per element


def use_cpu_kernels(model: PreTrainedModel) -> None:
    """Replace dropout and attention of ``model`` by those of this module.

    Attention that sees a window (ModernBERT) or relative positions (DeBERTa, MPNet) stays.
    """
    if model.config.model_type in FULL_ATTENTION:
        model.set_attn_implementation(_NAME)
    for part in list(model.modules()):
        for name, child in part.named_children():
            if type(child) is nn.Dropout:
                setattr(part, name, CpuDropout(child.p).train(child.training))


class CpuDropout(nn.Dropout):
    """``nn.Dropout`` from cheap random bits, with ``p`` rounded to a multiple of 1 / 65536."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not self.p or not _runs_here(input):
            return super().forward(input)
        # Multiplied twice, because in bf16 the factor alone would be off by up to 0.4%.
        return input * keep_mask(input.shape, self.p, input.dtype) * _scale(self.p)


def _runs_here(input: Tensor) -> bool:
    """Return True on a CPU; a compiler fuses PyTorch's own kernels and cannot trace these."""
    return input.device.type == "cpu" and not torch.compiler.is_compiling()


def keep_mask(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """Return independent ones, with probability ``1 - p``, and zeros, by torch's own generator."""
    count = math.prod(shape)
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[:count].view(shape)
    # In place, because PyTorch compares with vector instructions only where the result is not bool.
    return bits.lt_(_num_ones(p) - _LEVELS // 2).to(dtype)


def _num_ones(p: float) -> int:
    return min(max(round((1 - p) * _LEVELS), 1), _LEVELS - 1)


def _scale(p: float) -> float:
    return _LEVELS / _num_ones(p)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: object,
) -> tuple[Tensor, None]:
    """Return the attention output: ``[B, H, L, D] -> [B, L, H, D]``; for encoders, where a key is
    masked for all queries or for none.
    """
    # Without dropout PyTorch's own is faster in fp32; in bf16 its backward pass is 3 times slower.
    suits = module.training and (dropout > 0 or query.dtype != torch.float32)
    if not suits or not _runs_here(query):
        result: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
        return result
    bias = None
    if attention_mask is not None:
        masked = ~attention_mask[:, :, :1]
        bias = torch.zeros(masked.shape, dtype=query.dtype)
        bias.masked_fill_(masked, torch.finfo(query.dtype).min)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return _gather(query, key, value, bias, scaling, dropout).transpose(1, 2), None


class _Gather(torch.autograd.Function):
    """Attention in the dtype of its inputs, with the dropout fused into both passes."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        ctx.shape, ctx.scaling = query.shape, scaling
        ctx.factor = _scale(dropout) if dropout else 1.0
        # Contiguous copies are cheap and make the products 1.5 times as fast.
        query, key, value = (part.flatten(0, 1) for part in (query, key, value))
        query = query * scaling
        with torch.autocast("cpu", enabled=False):  # it would take the softmax to fp32
            scores = torch.bmm(query, key.transpose(1, 2))
            if bias is not None:
                scores.view(*ctx.shape[:3], -1).add_(bias)
            weights = torch.softmax(scores, -1)
            mask = keep_mask(weights.shape, dropout, weights.dtype) if dropout else None
            used = weights if mask is None else weights * mask
            gathered = torch.bmm(used, value).mul_(ctx.factor)
        ctx.save_for_backward(query, key, value, weights, mask)
        return gathered.view(ctx.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, mask = ctx.saved_tensors
        gradient = gradients[0].flatten(0, 1) * ctx.factor
        inner = torch.bmm(gradient, value.transpose(1, 2))
        used = weights
        if mask is not None:
            inner.mul_(mask)
            used = weights * mask
        for_value = torch.bmm(used.transpose(1, 2), gradient)
        # One kernel: composed of products in bf16, its sum over a row would be far from 0.
        inner = torch.ops.aten._softmax_backward_data(inner, weights, -1, weights.dtype)
        for_query = torch.bmm(inner, key).mul_(ctx.scaling)
        for_key = torch.bmm(inner.transpose(1, 2), query)
        shaped = [part.view(ctx.shape) for part in (for_query, for_key, for_value)]
        return *shaped, None, None, None


_gather: Any = _Gather.apply  # torch leaves it untyped


def attention_mask(
    *,
    attention_mask: Tensor | None = None,
    allow_is_bidirectional_skip: bool = False,
    **options: Any,
) -> Tensor | None:
    """Return the mask of a padded batch ``[B, 1, L, L]``, or None if nothing is masked.

    The batch is inspected only on a CPU: elsewhere the host would wait for the device, and full
    batches come without a mask (``encoder_inputs``).
    """
    at_hand = attention_mask is None or attention_mask.device.type == "cpu"
    mask: Tensor | None = sdpa_mask(
        attention_mask=attention_mask,
        allow_is_bidirectional_skip=allow_is_bidirectional_skip and at_hand,
        **options,
    )
    return mask


AttentionInterface.register(_NAME, attention)
AttentionMaskInterface.register(_NAME, attention_mask)
