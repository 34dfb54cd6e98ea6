"""Layers are found in the modules of any family, in their order."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import AutoModel

from road_ray.errors import ConfigError
from road_ray.models.architectures import keep_layers, layer_list, num_layers, parameter_depths
from tests.published import config_of

FAMILIES = ("bert", "electra", "roberta", "xlm-roberta", "mpnet")
FAMILIES += ("deberta-v2", "modernbert", "distilbert")


def encoder(family: str, layers: int, **more: object):
    return AutoModel.from_config(config_of(family, layers, vocab_size=50, pad_token_id=0, **more))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_of_a_layer_has_its_depth_and_embeddings_have_none(family):
    model = encoder(family, 3, share_att_key=False)  # of DeBERTa: projections of its own
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


@pytest.mark.parametrize("family", [*FAMILIES, "deberta-v2-xlarge"])
def test_what_computes_before_the_first_layer_has_the_depth_of_embeddings(family):
    more = {"conv_kernel_size": 3} if family == "deberta-v2-xlarge" else {}
    model = encoder(family.removesuffix("-xlarge"), 3, **more).eval()
    layers, order = layer_list(model), list[nn.Module]()
    for module in model.modules():
        if next(module.parameters(recurse=False), None) is not None or module in layers:
            module.register_forward_pre_hook(lambda called, _: order.append(called))
    model(torch.tensor([[5, 6, 7]]))
    before = order[: order.index(layers[0])]
    depths, _ = parameter_depths(model)
    own = {id(parameter) for module in before for parameter in module.parameters(recurse=False)}
    assert {depths[number] for number in own} == {0}
    # Tables of relative positions may be read as weights, without a call.
    rest = {n: depths[id(p)] for n, p in model.named_parameters() if ".layer" not in n}
    assert {n: d for n, d in rest.items() if "rel" in n and d} == {}
    assert {d for n, d in rest.items() if n.startswith("encoder.conv.")} <= {1}


def test_a_norm_behind_the_layers_belongs_to_the_last_one():
    model = encoder("modernbert", 2)
    depths, _ = parameter_depths(model)
    assert {depths[id(parameter)] for parameter in model.final_norm.parameters()} == {2}


@pytest.mark.parametrize(("groups", "inner", "distinct"), [(1, 1, 1), (2, 1, 2), (1, 2, 2)])
def test_shared_layers_of_albert_count_once(groups, inner, distinct):
    model = encoder("albert", 4, num_hidden_groups=groups, inner_group_num=inner)
    depths, layers = parameter_depths(model)
    assert layers == distinct
    of = {name: depths[id(parameter)] for name, parameter in model.named_parameters()}
    assert of["embeddings.word_embeddings.weight"] == 0
    assert of["encoder.embedding_hidden_mapping_in.weight"] == 0
    last = f"encoder.albert_layer_groups.{groups - 1}.albert_layers.{inner - 1}.ffn.weight"
    assert of[last] == distinct


@pytest.mark.parametrize("family", ["bert", "electra", "roberta", "modernbert", "distilbert"])
def test_kept_layers_are_those_of_the_model_and_load_with_plain_transformers(family, tmp_path):
    model = encoder(family, 4).eval()
    numbers = (0, 2) if family == "modernbert" else (1, 3)
    expected = [id(layer_list(model)[number]) for number in numbers]
    keep_layers(model, numbers)
    assert [id(layer) for layer in layer_list(model)] == expected
    assert num_layers(model.config) == 2
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path).eval()
    tokens = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert_close(loaded(tokens).last_hidden_state, model(tokens).last_hidden_state)


def test_layers_that_are_not_there_fit_their_place_alone_or_are_shared_are_refused():
    with pytest.raises(ConfigError, match="has no list of layers"):
        layer_list(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="keep the first layer as the first"):
        keep_layers(encoder("modernbert", 4), (1, 3))
    with pytest.raises(ConfigError, match="'albert' cannot be left out"):
        num_layers(encoder("albert", 2).config)
