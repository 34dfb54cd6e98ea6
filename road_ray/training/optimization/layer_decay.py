"""Layer-wise learning-rate decay: groups of parameters, each with its share of the peak rate."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from road_ray.models.encoder_layers import parameter_depths
from road_ray.objectives.base import Objective
from road_ray.training.config import OptimizerConfig


def layer_multiplier(depth: int, layers: int, decay: float, mode: str) -> float:
    """Return the share of the rate at ``depth``: 0 embeddings, 1..layers the blocks, layers + 1 the
    heads.

    Source: Clark et al. 2020, appendix; google electra issues 51 and 64 for ``electra_code``.
    """
    if depth > layers:
        return 1.0
    extra = 1 if mode == "electra_code" else 0
    return float(decay ** (layers + 1 - depth + extra))


def parameter_groups(objective: Objective, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Return parameter groups by depth, weight decay and, for heads, task: a head without a pass in
    a step is not updated.
    """
    depths = _depths(objective)
    groups: dict[tuple[tuple[int, int], bool, str], dict[str, Any]] = {}
    for name, parameter in objective.named_parameters():
        if not parameter.requires_grad:
            continue
        depth, layers = depths.get(id(parameter), (1, 0))  # of a head
        decays = parameter.ndim > 1
        head = name.split("heads.")[1].split(".")[0] if "heads." in name else ""
        key = ((depth, layers), decays, head)
        if key not in groups:
            share = layer_multiplier(depth, layers, config.layer_decay, config.layer_decay_mode)
            groups[key] = {
                "params": [],
                "peak_lr": config.peak_lr * share,
                "peak_weight_decay": config.weight_decay if decays else 0.0,
                "peak_eps": config.epsilon,
                "updates": 0,
            }
        groups[key]["params"].append(parameter)
    return list(groups.values())


def _depths(objective: Objective) -> dict[int, tuple[int, int]]:
    """Return depth and number of layers for each parameter of the encoders of an objective."""
    depths: dict[int, tuple[int, int]] = {}
    for module in objective.modules():
        if isinstance(module, PreTrainedModel) and module.base_model is module:
            of_encoder, layers = parameter_depths(module)
            depths |= {parameter: (depth, layers) for parameter, depth in of_encoder.items()}
    return depths
