"""Serialization of tensors and optimizers as safetensors and JSON, without loss.

Nothing is pickled, so that a checkpoint from elsewhere cannot run code.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from road_ray.errors import CheckpointError
from road_ray.training.fsdp import local_part

# Entries of a parameter group that come from the configuration, not from the checkpoint.
_CONFIGURED = {"peak_lr", "peak_weight_decay", "peak_eps", "betas"}


def tensors_to_file(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file; tied tensors are written under each name.

    Raises ``OSError`` with its errno for an error of the disk.
    """
    seen: set[int] = set()
    plain = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        if value.untyped_storage().data_ptr() in seen:  # safetensors refuses shared memory
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        plain[name] = value
    try:
        save_file(plain, path, metadata={"format": "pt"})
    except SafetensorError as error:
        match = re.search(r"os error (\d+)", str(error))
        number = int(match[1]) if match else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error


def tensors_from_file(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, on the CPU. Raises ``CheckpointError``."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: not a readable safetensors file: {error}\n    fix: use an older checkpoint"
        ) from error


def optimizer_tensors(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the optimizer's tensors by name, without copying them, and the JSON layout of its
    state. Parameters are identified by their order.
    """
    tensors: dict[str, Tensor] = {}
    state = _to_json(optimizer.state_dict(), "optimizer", tensors)
    shapes = [list(parameter.shape) for parameter in _parameters(optimizer)]
    return tensors, {"class": type(optimizer).__name__, "shapes": shapes, "state": state}


def load_optimizer(
    optimizer: Optimizer, tensors: Mapping[str, Tensor], layout: Mapping[str, object]
) -> None:
    """Restore the state that ``optimizer_tensors`` returned, bit for bit, except for values of the
    configuration, which stay as they are.

    Raises ``CheckpointError`` if class, number or shapes of the parameters differ.
    """
    parameters = _parameters(optimizer)
    _check(optimizer, [list(parameter.shape) for parameter in parameters], layout)
    try:
        saved = _from_json(layout["state"], tensors)
    except KeyError as error:
        raise CheckpointError(
            f"optimizer state: {error} is named by the layout but missing among the tensors\n"
            "    fix: use an older checkpoint"
        ) from error
    groups = [len(group["params"]) for group in optimizer.param_groups]
    saved_groups = [len(group["params"]) for group in saved["param_groups"]]
    if groups != saved_groups:
        raise CheckpointError(
            f"optimizer state: parameter groups of {saved_groups} parameters were saved, "
            f"this optimizer has {groups}\n    fix: resume with the configuration of the run"
        )
    order = [index for group in saved["param_groups"] for index in group["params"]]
    for index, parameter in zip(order, parameters, strict=True):
        state = saved["state"].get(index, {})
        for name in [n for n, x in state.items() if getattr(x, "shape", None) == parameter.shape]:
            state[name] = local_part(state[name], like=parameter)
    configured = [
        {key: group[key] for key in _CONFIGURED & set(group)} for group in optimizer.param_groups
    ]
    optimizer.load_state_dict(saved)
    for group, values in zip(optimizer.param_groups, configured, strict=True):
        group.update(values)
    for index, parameter in zip(order, parameters, strict=True):
        for name, value in saved["state"].get(index, {}).items():
            # load_state_dict casts to the parameter's dtype, which loses bits of wider states.
            now = optimizer.state[parameter][name]
            if isinstance(value, Tensor) and now.dtype != value.dtype:
                optimizer.state[parameter][name] = value.to(now.device)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check(optimizer: Optimizer, shapes: list[list[int]], layout: Mapping[str, Any]) -> None:
    kind, saved = type(optimizer).__name__, [list(shape) for shape in layout["shapes"]]
    wrong = None
    if layout["class"] != kind:
        wrong = f"saved by {layout['class']}, this optimizer is {kind}"
    elif len(saved) != len(shapes):
        wrong = f"{len(saved)} parameters were saved, this optimizer has {len(shapes)}"
    else:
        pairs = enumerate(zip(saved, shapes, strict=True))
        differences = [f"{i}: saved {old}, now {new}" for i, (old, new) in pairs if old != new]
        if differences:
            wrong = (
                f"{len(differences)} parameters have another shape; first, number {differences[0]}"
            )
    if wrong:
        raise CheckpointError(
            f"optimizer state: {wrong}\n    fix: resume with the configuration of the run"
        )


def _to_json(value: object, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return nested values as JSON, with tensors moved to ``tensors`` and replaced by names."""
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, Mapping):
        pairs = [[key, _to_json(item, f"{name}.{key}", tensors)] for key, item in value.items()]
        return {"map": pairs}
    if isinstance(value, list | tuple):
        items = [_to_json(item, f"{name}.{i}", tensors) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    try:
        json.dumps(value)
    except TypeError as error:
        raise CheckpointError(f"{name}: {value!r} cannot be written as JSON") from error
    return value


def _from_json(value: object, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, Mapping):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "map":
        return {key: _from_json(item, tensors) for key, item in content}
    items = [_from_json(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items
