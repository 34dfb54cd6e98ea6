"""What a model multiplies in: a student that trains, a teacher that answers."""

from __future__ import annotations

import torch

from road_ray.models.config import Precision

# With bf16 instructions a CPU's step was 1.6 times as fast at this width, 1.2 at 128, 1.0 at 64 and
# 0.9 at 32 (`python -m tests.benchmarks precision`); below it fp32 costs little and is exact.
_LEAST_BF16_WIDTH = 256


def autocast_dtype(precision: Precision, device: torch.device, width: int) -> torch.dtype | None:
    """The dtype of autocast regions, or None for fp32: for an encoder ``width`` wide."""
    if device.type == "cuda":
        gains = torch.cuda.is_bf16_supported()
    else:
        gains = device.type == "cpu" and width >= _LEAST_BF16_WIDTH and _multiplies_bf16()
    return torch.bfloat16 if precision == "bf16" or (precision == "auto" and gains) else None


def _multiplies_bf16() -> bool:
    """Whether this CPU has instructions for it; without them bf16 is emulated and slower."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # the oldest torch allowed lacks it
    found = ask() if ask is not None else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))
