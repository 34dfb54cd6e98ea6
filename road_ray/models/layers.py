"""Layers of an encoder, found in its modules: no list of names, so they are found in any family."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from road_ray.errors import ConfigError


def layer_list(encoder: PreTrainedModel) -> nn.ModuleList:
    """Return the module list that holds the layers of an encoder, in their order.

    It is the outermost list with most of the weights of any list. Layers that are shared (ALBERT)
    stand in it once. Raises ``ConfigError`` for a model without such a list.
    """
    lists = [module for module in encoder.modules() if isinstance(module, nn.ModuleList) and module]
    if not lists:
        raise ConfigError(
            f"{type(encoder).__name__} has no list of layers\n"
            "  allowed: encoders of transformers that are stacks of layers\n"
            "  fix: name a model of another family; optimizer.layer_decay=1 needs no layers"
        )
    chosen = max(lists, key=_size)  # ties: the outermost, which modules() names first
    while len(chosen) == 1 and (inner := _only_list(chosen[0])) is not None:
        chosen = inner  # one group that holds all distinct layers
    return chosen


def parameter_depths(encoder: PreTrainedModel) -> tuple[dict[int, int], int]:
    """Return the depth of every parameter by its ``id``, and the number of distinct layers.

    0: embeddings and whatever stands before the first layer; 1 to the number of layers: the layers;
    a norm behind them belongs to the last one.
    """
    layers = layer_list(encoder)
    depths = {
        id(parameter): depth
        for depth, layer in enumerate(layers, 1)
        for parameter in layer.parameters()
    }
    before = True
    for name, parameter in encoder.named_parameters():
        if id(parameter) in depths:
            before = False
        else:
            depths[id(parameter)] = 0 if before or "embedding" in name else len(layers)
    return depths, len(layers)


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _only_list(module: nn.Module) -> nn.ModuleList | None:
    """Return the list below ``module`` that holds all of its weights, if there is one."""
    lists = [below for below in module.modules() if isinstance(below, nn.ModuleList)]
    whole = [below for below in lists if _size(below) == _size(module)]
    return whole[0] if whole else None
