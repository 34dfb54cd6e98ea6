"""Choice of an encoder's attention implementation, and encoders that read rows without padding.

With ``flash_attention_2`` and ``unpadded`` an encoder gets the real tokens of all rows one behind
the other, as one row whose positions start again, so that no layer computes padding. It returns
the states that it would return for padded rows; they are 0 at padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from road_ray.errors import ConfigError, first_line
from road_ray.models.architectures import longest_row
from road_ray.models.config import Attention
from road_ray.models.cpu_kernels import FULL_ATTENTION, attention


def use_attention(encoder: PreTrainedModel, name: Attention, autocast: torch.dtype | None) -> None:
    """Set the attention implementation of an encoder that is trained with ``autocast``.

    Raises ``ConfigError`` if its family has no such implementation, or if it cannot run here.
    """
    if name == "auto":
        return
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
    of_row: Any = sdpa_attention_forward
    if module.config.model_type in FULL_ATTENTION:
        of_row = attention
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
