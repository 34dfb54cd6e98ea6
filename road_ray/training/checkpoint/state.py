"""Weights and optimizer state of a training as safetensors and JSON, whole or sharded, without
loss. Nothing is pickled, so that a checkpoint from elsewhere cannot run code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer

from road_ray.errors import CheckpointError

_GATHERED = StateDictOptions(full_state_dict=True, cpu_offload=True)
# Tied weights have one of their names, and a head without a step has no optimizer state.
_GIVEN = StateDictOptions(full_state_dict=True, strict=False)


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return every tensor once, tied and shared ones under their first name."""
    tensors = module.state_dict(keep_vars=True)
    first_names: dict[int, str] = {}
    for name, tensor in tensors.items():
        first_names.setdefault(id(tensor), name)
    return {name: tensors[name].detach() for name in first_names.values()}


def gathered_weights(trained: nn.Module) -> dict[str, Tensor]:
    """Return the weights, whole, on the CPU, under all their names; they are not copies there.
    Other workers than the leading one get none. Collective.
    """
    gathered: dict[str, Any] = get_model_state_dict(trained, options=_GATHERED)
    return gathered


def gathered_optimizer(
    trained: nn.Module, optimizer: Optimizer
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return copies of the optimizer's tensors, named ``PARAMETER/STATE``, and its parameter
    groups. Other workers than the leading one get none. Collective.
    """
    gathered: dict[str, Any] = get_optimizer_state_dict(trained, optimizer, options=_GATHERED)
    # What is on a device has been copied already, except counts of steps, which may be on the host.
    on_host = next(trained.parameters()).device.type == "cpu"
    tensors = {
        f"{parameter}/{name}": value.clone() if on_host or not value.dim() else value
        for parameter, state in gathered.get("state", {}).items()
        for name, value in state.items()
    }
    return tensors, gathered.get("param_groups", [])


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors that share no memory to a safetensors file."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, path, metadata={"format": "pt"})


def restore(
    trained: nn.Module, optimizer: Optimizer, directory: Path, state: Mapping[str, Any]
) -> None:
    """Load weights and optimizer of a checkpoint, bit for bit; every worker reads the whole.

    Raises ``CheckpointError`` for an unreadable file, other weights or an older format.
    """
    if not isinstance(groups := state["optimizer"], list):
        raise CheckpointError(
            f"{directory}: an earlier version of road_ray wrote it and can resume it\n"
            "  fix: finish the run with that version, or name another run_dir to train again\n"
            "  kept: the checkpoint, unchanged"
        )
    try:
        load_weights(trained, directory)
        states: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, value in load_file(directory / "optimizer.safetensors").items():
            parameter, _, entry = name.rpartition("/")
            states[parameter][entry] = value
        given: dict[str, Any] = {"state": dict(states), "param_groups": groups}
        set_optimizer_state_dict(trained, optimizer, given, options=_GIVEN)
        for name, parameter in trained.named_parameters():
            if name not in states:  # PyTorch has made a state of zeros
                optimizer.state.pop(parameter, None)
    except (OSError, SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{directory}: does not match this training: {error}\n"
            "  fix: resume with the configuration of the run"
        ) from error


def load_weights(trained: nn.Module, directory: Path) -> None:
    """Load the weights of a checkpoint. Raises ``CheckpointError`` for those of another model."""
    weights = load_file(directory / "model.safetensors")
    if unmatched := sorted(weights.keys() ^ named_tensors(trained).keys()):
        raise CheckpointError(
            f"{directory}: does not match the model: {len(unmatched)} missing or unexpected "
            f"tensors, such as {', '.join(unmatched[:3])}\n"
            "  fix: resume with the configuration of the run"
        )
    set_model_state_dict(trained, weights, options=_GIVEN)
