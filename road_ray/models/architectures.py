"""Encoder families: the Hugging Face classes of each, the inputs of their models, and their layers,
found among the modules, without a list of names for each family.

``FAMILIES`` are those that ``road pretrain`` can build with random weights, with the initialization
of ELECTRA. Transformers' Auto classes have the classes of all families.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    AutoModel,
    PreTrainedConfig,
    PreTrainedModel,
)

from road_ray.data.batching import INPUTS
from road_ray.data.task_and_dataset import HEADS, Kind
from road_ray.errors import CheckpointError, ConfigError

FAMILIES = ("electra", "bert", "albert")
FIRST_TOKEN = "first_token_only"  # input of an encoder: its output is that of the first token
FIRST_TOKEN_FAMILIES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")  # that know it


def encoder_class(config: PreTrainedConfig) -> tuple[Any, dict[str, bool]]:
    """Return the class of an encoder without heads, and the options that leave its pooler, a part
    of heads, out.

    Raises ``CheckpointError`` for an architecture that is not an encoder, or that is no masked
    language model in transformers.
    """
    has_head = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    encoder: Any = MODEL_MAPPING.get(type(config), None)
    encoder = encoder[0] if isinstance(encoder, tuple) else encoder  # two of Funnel alone
    if encoder is None or not has_head or config.is_encoder_decoder:
        raise CheckpointError(
            f"{config.name_or_path or 'config.json'}: {config.model_type!r} is no encoder of "
            "transformers\n  allowed: encoders, such as bert, electra, roberta, deberta-v2, "
            "modernbert, distilbert and mpnet\n  fix: name a model of such an architecture"
        )
    has_pooler = "add_pooling_layer" in inspect.signature(encoder.__init__).parameters
    return encoder, {"add_pooling_layer": False} if has_pooler else {}


def auto_class(kind: Kind) -> Any:
    """Return the Auto class of ``transformers`` for a kind of head."""
    suffix = next(suffix for of_head, suffix in HEADS.items() if isinstance(kind, of_head))
    return getattr(transformers, f"AutoModel{suffix}")


def model_class(kind: Kind, config: PreTrainedConfig) -> Any:
    """Return the class of ``transformers`` for a kind of head on an architecture.

    Raises ``CheckpointError`` if it has none.
    """
    auto = auto_class(kind)
    found = auto._model_mapping.get(type(config), None)
    if found is None:
        raise CheckpointError(
            f"{config.name_or_path or 'config.json'}: transformers has no {auto.__name__} on "
            f"{config.model_type!r}\n  fix: name a model of another architecture, such as roberta"
        )
    return found


def is_decoder(config: PreTrainedConfig) -> bool:
    """Return True for a model that predicts the next token, such as GPT-2, Llama and Qwen. Its head
    reads the last token of a row.
    """
    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING


def input_names(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the names of the inputs that a model takes: segments only if it embeds them."""
    segments = "token_type_ids" in inspect.signature(type(model).forward).parameters
    embedded = getattr(model.config, "type_vocab_size", 0) > 1
    return INPUTS if segments and embedded else INPUTS[:2]


def longest_row(encoder: PreTrainedModel | PreTrainedConfig) -> int:
    """Return the length of the longest row that an encoder, or that of a configuration, reads, in
    tokens.

    RoBERTa and MPNet count positions from behind the padding index, so they read fewer tokens than
    their position table has rows.
    """
    if isinstance(encoder, PreTrainedConfig):
        with torch.device("meta"):  # without its weights
            encoder = AutoModel.from_config(encoder)
    positions = int(encoder.config.max_position_embeddings)
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return positions - (0 if module.padding_idx is None else module.padding_idx + 1)
    return positions


def layer_list(encoder: PreTrainedModel) -> nn.ModuleList:
    """Return the module list that holds the layers of an encoder, in their order.

    It is the longest of the lists with the most weights. Shared layers (ALBERT) are in it once.
    Raises ``ConfigError`` for a model without such a list.
    """
    lists = [module for module in encoder.modules() if isinstance(module, nn.ModuleList) and module]
    if not lists:
        raise ConfigError(
            f"{type(encoder).__name__} has no list of layers\n"
            "  allowed: encoders of transformers that are stacks of layers\n"
            "  fix: name a model of another family; optimizer.layer_decay=1 needs no layers"
        )
    # Ties: the innermost, so that one group that holds all distinct layers counts as these.
    return max(
        reversed(lists), key=lambda found: (sum(x.numel() for x in found.parameters()), len(found))
    )


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
    del layers[:]
    layers.extend(remaining)
    encoder.config.num_hidden_layers = len(remaining)
    types = getattr(encoder.config, "layer_types", None)
    if types is not None:
        encoder.config.layer_types = [types[number] for number in numbers]
    with torch.device("meta"):
        plain = AutoModel.from_config(encoder.config)
    differing = sorted(encoder.state_dict().keys() ^ plain.state_dict().keys())
    if differing := [name for name in differing if not name.startswith("pooler.")]:
        raise ConfigError(
            f"student.layers = {list(numbers)}: these layers of the family "
            f"{encoder.config.model_type!r} make no model of it: only one has {differing[0]}\n"
            "  fix: keep the first layer as the first"
        )
    allow_first_token(encoder)


def allow_first_token(encoder: PreTrainedModel) -> None:
    """Let the last layer compute its feed-forward block for the first token alone in calls that ask
    for it: two thirds of the FLOPs of a layer, for heads of sentences, which read no other token.
    """
    if encoder.config.model_type in FIRST_TOKEN_FAMILIES:
        attention: Any = layer_list(encoder)[-1].attention
        attention.register_forward_hook(_cut, with_kwargs=True)


def _cut(attention: nn.Module, args: object, inputs: dict[str, Any], output: Any) -> Any:
    """Return the attention's output ``[B, 1, D]`` of the first token where that is all."""
    # Rows one behind the other have their first tokens elsewhere.
    if not inputs.get(FIRST_TOKEN) or "cu_seq_lens_q" in inputs:
        return output
    # Of a view, PyTorch multiplies with a copy of the weights a row when no gradient is asked for.
    return output[0][:, :1].contiguous(), *output[1:]


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
    """Return True for a parameter of embeddings, or of the norm of DeBERTa-v2's positions."""
    if name.startswith("encoder.LayerNorm."):
        return hasattr(encoder.encoder, "rel_embeddings")
    owner = encoder.get_submodule(name.rpartition(".")[0])
    return "embedding" in name or isinstance(owner, nn.Embedding)
