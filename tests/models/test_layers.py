"""Layers are found in the modules of any family, in their order."""

from __future__ import annotations

import pytest
from torch import nn
from transformers import CONFIG_MAPPING, AutoModel

from road_ray.errors import ConfigError
from road_ray.models.layers import layer_list, parameter_depths

SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 50}
FAMILIES = {
    "bert": SMALL,
    "electra": SMALL | {"embedding_size": 8},
    "roberta": SMALL,
    "xlm-roberta": SMALL,
    "mpnet": SMALL,
    "deberta-v2": SMALL | {"relative_attention": True, "position_buckets": 8},
    "modernbert": SMALL | {"pad_token_id": 0},
    "distilbert": {"dim": 16, "n_heads": 2, "hidden_dim": 24, "vocab_size": 50},
}


def encoder(family: str, layers: int, **more: object):
    kind = CONFIG_MAPPING[family]
    count = {"n_layers" if family == "distilbert" else "num_hidden_layers": layers}
    return AutoModel.from_config(kind(**FAMILIES.get(family, SMALL) | count | more))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_of_a_layer_has_its_depth_and_embeddings_have_none(family):
    model = encoder(family, 3)
    assert len(layer_list(model)) == 3
    depths, layers = parameter_depths(model)
    assert layers == 3
    assert set(depths) == {id(parameter) for parameter in model.parameters()}
    for name, parameter in model.named_parameters():
        numbers = [int(part) for part in name.split(".") if part.isdigit()]
        if numbers:
            assert depths[id(parameter)] == numbers[0] + 1, name
        elif "embedding" in name:
            assert depths[id(parameter)] == 0, name


def test_a_norm_behind_the_layers_belongs_to_the_last_one():
    model = encoder("modernbert", 2)
    depths, _ = parameter_depths(model)
    assert {depths[id(parameter)] for parameter in model.final_norm.parameters()} == {2}


@pytest.mark.parametrize(("groups", "inner", "distinct"), [(1, 1, 1), (2, 1, 2), (1, 2, 2)])
def test_shared_layers_of_albert_count_once(groups, inner, distinct):
    model = encoder("albert", 4, embedding_size=8, num_hidden_groups=groups, inner_group_num=inner)
    depths, layers = parameter_depths(model)
    assert layers == distinct
    of = {name: depths[id(parameter)] for name, parameter in model.named_parameters()}
    assert of["embeddings.word_embeddings.weight"] == 0
    assert of["encoder.embedding_hidden_mapping_in.weight"] == 0
    last = f"encoder.albert_layer_groups.{groups - 1}.albert_layers.{inner - 1}.ffn.weight"
    assert of[last] == distinct


def test_a_model_without_layers_is_refused():
    with pytest.raises(ConfigError, match="has no list of layers"):
        layer_list(nn.Linear(2, 2))
