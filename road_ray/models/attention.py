"""Choice of an encoder's attention implementation; dropout and attention that train faster on a CPU
than those of PyTorch, which other devices use; encoders that read rows without padding.

PyTorch draws a Bernoulli number in about 6 ns on most CPUs, and its attention with dropout computes
in fp32 for inputs of any dtype. Names, weights and saved configurations do not change.

With ``flash_attention_2`` and ``unpadded`` an encoder gets the real tokens of all rows one behind
the other, as one row whose positions start again, so that no layer computes padding. It returns
the states that it would return for padded rows; they are 0 at padding.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from road_ray.errors import ConfigError, first_line
from road_ray.models.architectures import longest_row
from road_ray.models.config import Attention

_NAME = "road_ray"
FULL_ATTENTION = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
_LEVELS = 1 << 16  # of probability: 16 random bits per element


def use_cpu_kernels(model: PreTrainedModel) -> None:
    """Replace dropout and attention of ``model`` by ``CpuDropout`` and ``attention``.

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


def use_attention(encoder: PreTrainedModel, name: Attention, autocast: torch.dtype | None) -> None:
    """Set another attention implementation than ``auto`` for training with ``autocast``.

    Raises ``ConfigError`` if its family has no such implementation, or if it cannot run here.
    """
    before, problem = encoder.config._attn_implementation, ""
    try:
        encoder.set_attn_implementation(name)
    except (ValueError, ImportError) as error:
        problem = first_line(error)
    if encoder.config._attn_implementation == before != name:  # transformers may only warn
        problem = problem or "transformers has eager attention alone for this family"
    if name == "flash_attention_2" and autocast is None:
        problem = problem or "its kernels compute in bf16: training.precision=bf16"
    if problem:
        raise ConfigError(
            f"encoder.attention = {name}, of a {encoder.config.model_type} model: {problem}\n"
            "  allowed: auto, eager; sdpa and unpadded for families that transformers has them for;"
            " flash_attention_2 on an NVIDIA GPU\n"
            "  fix: encoder.attention=auto; for flash_attention_2: pip install flash-attn"
        )
    if name in ("flash_attention_2", "unpadded"):
        first = int(encoder.config.max_position_embeddings) - longest_row(encoder)
        encoder.register_forward_pre_hook(partial(_pack, first), with_kwargs=True)
        encoder.register_forward_hook(_unpack, with_kwargs=True)


def _pack(
    first: int, encoder: nn.Module, args: tuple[Tensor, ...], inputs: dict[str, Any]
) -> tuple[tuple[()], dict[str, Any]] | None:
    """Replace the inputs ``[B, L]`` of an encoder whose positions count from ``first`` by their
    real tokens ``[1, T]``, with the bounds of the rows. Batches without a mask have no padding.
    """
    inputs = dict(zip(("input_ids",), args, strict=False)) | inputs
    mask = inputs.pop("attention_mask", None)
    if mask is None:
        return None
    # The host waits for the number of tokens here, once a pass; transformers' own unpadding would
    # wait in every layer.
    real = mask.flatten().nonzero().squeeze(1)
    inputs["position_ids"] = first + mask.cumsum(1) - 1
    for name, value in inputs.items():
        if torch.is_tensor(value):
            inputs[name] = value.flatten()[real][None]
    bounds = functional.pad(mask.sum(1).cumsum(0), (1, 0)).int()
    width = int(mask.shape[1])
    inputs |= {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds}
    return (), inputs | {"max_length_q": width, "max_length_k": width}


def _unpack(encoder: nn.Module, args: object, inputs: dict[str, Any], output: Any) -> Any:
    output.last_hidden_state = padded_states(output.last_hidden_state, inputs)
    if output.get("hidden_states") is not None:
        output.hidden_states = tuple(padded_states(x, inputs) for x in output.hidden_states)
    return output


def padded_states(states: Tensor, inputs: Mapping[str, Any]) -> Tensor:
    """Return the states ``[B, L, D]`` of rows that an encoder or one of its layers computed from
    ``inputs``: ``states`` itself, or if these say that it is ``[1, T, D]``, with 0 at padding.
    """
    bounds = inputs.get("cu_seq_lens_q")
    if bounds is None:
        return states
    columns = torch.arange(inputs["max_length_q"], device=bounds.device)
    padding = columns >= bounds.diff()[:, None]
    tokens = (bounds[:-1, None] + columns).masked_fill(padding, 0)
    return states[0][tokens].masked_fill(padding[..., None], 0)


def _by_row(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **options: object,
) -> tuple[Tensor, None]:
    """Return the attention output of rows one behind the other, ``[1, H, T, D] -> [1, T, H, D]``,
    or of a batch of full rows. Each row is computed by itself.
    """
    is_full = module.config.model_type in FULL_ATTENTION
    of_row: Any = attention if is_full else sdpa_attention_forward
    lengths = [query.shape[2]] if cu_seq_lens_q is None else cu_seq_lens_q.diff().tolist()
    outputs = []
    parts = (torch.split(part, lengths, 2) for part in (query, key, value))
    for q, k, v in zip(*parts, strict=True):
        seen = None
        if sliding_window is not None and sliding_window < q.shape[2]:
            positions = torch.arange(q.shape[2], device=q.device)
            seen = ((positions[:, None] - positions).abs() < sliding_window)[None, None]
        outputs.append(
            of_row(module, q, k, v, seen, dropout=dropout, scaling=scaling, is_causal=False)[0]
        )
    return torch.cat(outputs, 1), None


AttentionInterface.register("unpadded", _by_row)
