"""Layer-wise learning-rate decay: the depth of each parameter, and its share of the peak rate."""

from __future__ import annotations

from transformers import PreTrainedModel

from road_ray.models.encoder_layers import parameter_depths
from road_ray.objectives.base import Objective


def layer_multiplier(depth: int, layers: int, decay: float, mode: str) -> float:
    """Return the share of the rate at ``depth``: 0 embeddings, 1..layers the blocks, layers + 1 the
    heads.

    Source: Clark et al. 2020, appendix; google electra issues 51 and 64 for ``electra_code``.
    """
    if depth > layers:
        return 1.0
    extra = 1 if mode == "electra_code" else 0
    return float(decay ** (layers + 1 - depth + extra))


def parameter_depths_of(objective: Objective) -> dict[int, tuple[int, int]]:
    """Return depth and number of layers for each parameter of the encoders of an objective."""
    depths: dict[int, tuple[int, int]] = {}
    for module in objective.modules():
        if isinstance(module, PreTrainedModel) and module.base_model is module:
            of_encoder, layers = parameter_depths(module)
            depths |= {parameter: (depth, layers) for parameter, depth in of_encoder.items()}
    return depths
