"""Layers of an encoder, found among its modules, without a list of names for each family."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from road_ray.errors import ConfigError


def layer_list(encoder: PreTrainedModel) -> nn.ModuleList:
    """Return the module list that holds the layers of an encoder, in their order.

    It is the outermost of the lists with the most weights. Shared layers (ALBERT) are in it once.
    Raises ``ConfigError`` for a model without such a list.
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


def num_layers(config: PreTrainedConfig) -> int:
    """Return the number of layers in a configuration.

    Raises ``ConfigError`` for a family that shares its layers (ALBERT) or has other names.
    """
    count = getattr(config, "num_hidden_layers", None)
    if config.model_type == "albert" or not isinstance(count, int):
        raise ConfigError(
            f"student.layers: layers of the family {config.model_type!r} cannot be left out\n"
            "  allowed: families with weights of their own in every layer\n"
            "  fix: leave student.layers out"
        )
    return count


def keep_layers(encoder: PreTrainedModel, numbers: Sequence[int]) -> None:
    """Remove all layers of an encoder except those with these indices, in place.

    Raises ``ConfigError`` if a layer does not fit its new place: the first layer of ModernBERT has
    other modules than the rest.
    """
    layers = layer_list(encoder)
    remaining = [layers[number] for number in numbers]
    for number in range(len(layers) - 1, -1, -1):
        del layers[number]
    layers.extend(remaining)
    encoder.config.num_hidden_layers = len(remaining)
    types = getattr(encoder.config, "layer_types", None)
    if types is not None:
        encoder.config.layer_types = [types[number] for number in numbers]
    with torch.device("meta"):
        plain = AutoModel.from_config(encoder.config)
    names = {name for name in encoder.state_dict() if not name.startswith("pooler.")}
    if differing := sorted(
        names ^ {name for name in plain.state_dict() if not name.startswith("pooler.")}
    ):
        raise ConfigError(
            f"student.layers = {list(numbers)}: these layers of the family "
            f"{encoder.config.model_type!r} make no model of it: only one has {differing[0]}\n"
            "  fix: keep the first layer as the first"
        )


def parameter_depths(encoder: PreTrainedModel) -> tuple[dict[int, int], int]:
    """Return the depth of every parameter by its ``id``, and the number of distinct layers.

    Embeddings and all modules before the first layer have depth 0, the layers 1 to their number. A
    norm after the last layer has the depth of that layer. Relative positions are embeddings too,
    with the norm beside them, wherever they are listed (MPNet, DeBERTa-v2).
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
        elif before or _is_of_embeddings(encoder, name):
            depths[id(parameter)] = 0
        else:  # DeBERTa-v2 adds a convolution to the output of its first layer
            depths[id(parameter)] = 1 if name.startswith("encoder.conv.") else len(layers)
    return depths, len(layers)


def _is_of_embeddings(encoder: PreTrainedModel, name: str) -> bool:
    """Return True for a parameter of embeddings, or of the norm in the module that holds them."""
    owner, _, _ = name.rpartition(".")
    module, (holder, _, _) = encoder.get_submodule(owner), owner.rpartition(".")
    beside = [child for child, _ in encoder.get_submodule(holder).named_children()]
    is_norm = "norm" in type(module).__name__.lower() and any("embedding" in n for n in beside)
    in_encoder = bool(holder)  # the model itself holds its embeddings beside everything else
    return "embedding" in name or isinstance(module, nn.Embedding) or (is_norm and in_encoder)


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _only_list(module: nn.Module) -> nn.ModuleList | None:
    """Return the list below ``module`` that holds all of its weights, if there is one."""
    lists = [below for below in module.modules() if isinstance(below, nn.ModuleList)]
    complete = [below for below in lists if _size(below) == _size(module)]
    return complete[0] if complete else None
