"""Which tensors are one after tying; across families too."""

from __future__ import annotations

import pytest
import torch

from road_ray.errors import ConfigError
from road_ray.models.encoder import new_detector, new_language_model
from road_ray.models.weight_tying import share, share_layers
from tests.tiny_encoder import TINY as ELECTRA

ALBERT = ELECTRA.model_copy(update={"family": "albert"})
BERT = ELECTRA.model_copy(update={"family": "bert", "embedding_size": 32})


@pytest.mark.parametrize("main", [ELECTRA, ALBERT, BERT], ids=lambda size: size.family)
def test_a_generator_of_electra_s_kind_shares_any_embeddings(main):
    small = ELECTRA.model_copy(
        update={"hidden_size": 16, "heads": 1, "embedding_size": main.embedding_size}
    )
    generator, detector = new_language_model(small, 50), new_detector(main, 50)
    share(generator, detector, "embeddings")
    table = detector.get_input_embeddings().weight
    assert generator.get_output_embeddings().weight is table
    tokens = torch.randint(5, 50, (2, 9))
    assert generator(input_ids=tokens).logits.shape == (2, 9, 50)


@pytest.mark.parametrize("main", [ELECTRA, ALBERT, BERT], ids=lambda size: size.family)
def test_all_of_one_family_can_be_shared(main):
    generator, detector = new_language_model(main, 50), new_detector(main, 50)
    share(generator, detector, "all")
    assert generator.base_model is detector.base_model
    generator(input_ids=torch.randint(5, 50, (2, 9))).logits.sum().backward()


def test_more_layers_than_there_are_cannot_be_shared():
    ours, theirs = (new_language_model(ELECTRA, 50) for _ in range(2))
    share_layers(ours, theirs, 0)
    share_layers(ours, theirs, 2)
    assert list(ours.base_model.encoder.layer) == list(theirs.base_model.encoder.layer)
    with pytest.raises(ConfigError, match="shared_layers = 3"):
        share_layers(ours, theirs, 3)
