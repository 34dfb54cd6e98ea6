"""Device and precision of a model's arithmetic, and compilation for all lengths."""

import logging
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from road_ray.data.task_and_dataset import Kind, Regress
from road_ray.errors import ConfigError
from road_ray.models.config import Precision

_log = logging.getLogger(__name__)
_DRIVER = Path("/proc/driver/nvidia/version")
# With bf16 instructions a CPU's step was 1.6 times as fast at this width, 1.2 at 128, 1.0 at 64 and
# 0.9 at 32 (docs/results/benchmarks.md); below it fp32 costs little and is exact.
_LEAST_BF16_WIDTH = 256


def default_device() -> torch.device:
    """Return the device that ``ROAD_DEVICE`` names: ``cpu``, ``cuda`` or ``mps`` (Apple's GPUs);
    by default a GPU of NVIDIA or AMD if there is one, else the CPU. A process of Ray that was given
    no GPU uses the CPU: Ray leaves all GPUs visible to it.

    Raises ``ConfigError`` for another name, and for a device that torch cannot use here.
    """
    usable = {"cpu": True, "cuda": torch.cuda.is_available()}
    usable["mps"] = torch.backends.mps.is_available()
    name = os.environ.get("ROAD_DEVICE")
    ray: Any = sys.modules.get("ray")
    if not name and ray is not None and ray.is_initialized():
        mode = ray.get_runtime_context().worker.mode  # of a driver: another
        if mode == ray.WORKER_MODE and not ray.get_gpu_ids():
            name = "cpu"
    if not name and not usable["cuda"] and _DRIVER.is_file():
        _tell_unusable_gpu()
    name = name or ("cuda" if usable["cuda"] else "cpu")
    if not usable.get(name):
        allowed = ", ".join(device for device, is_usable in usable.items() if is_usable)
        raise ConfigError(
            f"ROAD_DEVICE = {name}: no device that torch can use here\n  allowed: {allowed}\n"
            "  fix: unset it, or install a torch for that device"
        )
    return torch.device(name)


@lru_cache
def _tell_unusable_gpu() -> None:
    """Warn, once, that torch cannot use the GPUs of this machine, and why."""
    problem = "no GPU is visible to this process"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:  # such as a driver that is too old
        problem = str(error).splitlines()[0]
    fix = "a newer driver or another torch; ROAD_DEVICE=cpu ends this"
    _log.warning("using the CPU: torch cannot use its GPU: %s\n  fix: %s", problem, fix)


def precision_of(kind: Kind, chosen: Precision) -> Precision:
    """Return that of a finished model: ``fp32`` of numbers, as bf16 has every eighth at 1960."""
    return "fp32" if isinstance(kind, Regress) else chosen


def autocast_dtype(precision: Precision, device: torch.device, width: int) -> torch.dtype | None:
    """Return the dtype of autocast for an encoder of ``width``, or None for fp32. On a GPU, also
    turn off TF32 in cuDNN, where PyTorch has it on, unlike in matrix products.
    """
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        gains = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        gains = device.type == "cpu" and width >= _LEAST_BF16_WIDTH
        # Without these instructions a CPU emulates bf16, which is slower. The oldest torch allowed
        # does not tell them.
        has: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
        gains = gains and bool(has.get("avx512_bf16") or has.get("amx_bf16"))
    return torch.bfloat16 if precision == "bf16" or (precision == "auto" and gains) else None


def compile_for_all_shapes(network: nn.Module, backend: object = "inductor") -> None:
    """Compile a network, in place, once for batches of any size and length; batches of one row
    are compiled apart. Code that cannot be compiled runs eagerly, with a warning of PyTorch; names
    of weights do not change.
    """
    network.compile(backend=backend, dynamic=True)
    # Errors are suppressed for this network alone, not for the compiled code of the user.
    compiled = network._compiled_call_impl
    network._compiled_call_impl = torch._dynamo.config.patch(suppress_errors=True)(compiled)
