"""Heads of language models, and weights that networks share."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from road_ray.models.architectures import FAMILIES
from road_ray.models.encoder import new_discriminator, new_language_model
from road_ray.models.language_model import (
    decoder,
    share,
    states,
    tie,
    vocabulary_logits,
)
from tests.tiny_encoder import padded_batch, size_of

size = partial(size_of, initializer_std=0.2)


@pytest.mark.parametrize("family", FAMILIES)
def test_parts_make_the_whole_language_model(family):
    batch = padded_batch(9, 5)
    model = new_language_model(size(family), 50).eval()
    tie(model)
    hidden = states(model.base_model, batch["input_ids"], batch)
    assert_close(vocabulary_logits(model, hidden), model(**batch).logits)
    assert decoder(model).weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("family", FAMILIES)
def test_all_of_one_family_can_be_shared_and_embeddings_with_a_small_electra(family):
    main = size(family)
    small = size_of("electra", hidden_size=16, heads=1, embedding_size=main.embedding_size)
    for shape, tying in ((main, "all"), (small, "embeddings")):
        generator, detector = new_language_model(shape, 50), new_discriminator(main, 50)
        share(generator, detector, tying)
        assert (generator.base_model is detector.base_model) == (tying == "all")
        assert decoder(generator).weight is detector.get_input_embeddings().weight
        generator(input_ids=torch.randint(5, 50, (2, 9))).logits.sum().backward()
