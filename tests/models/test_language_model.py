"""Every family of encoders is called alike and says what Hugging Face's own forward says."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from road_ray.models.architectures import FAMILIES
from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import new_detector, new_language_model
from road_ray.models.language_model import decoder, detection_scores, states, vocabulary_logits
from road_ray.models.weight_tying import tie


def size(family):
    return EncoderConfig(
        family=family,
        layers=2,
        hidden_size=32,
        heads=2,
        intermediate_size=64,
        embedding_size=32 if family == "bert" else 16,
        max_length_tokens=16,
        initializer_std=0.2,
    )


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return {
        "input_ids": torch.randint(5, 50, (2, 9)),
        "attention_mask": torch.tensor([[1] * 9, [1] * 5 + [0] * 4]),
        "token_type_ids": torch.tensor([[0] * 4 + [1] * 5, [0] * 9]),
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_parts_make_the_whole_language_model(family, batch):
    model = new_language_model(size(family), 50).eval()
    tie(model)
    hidden = states(model.base_model, batch["input_ids"], batch)
    assert_close(vocabulary_logits(model, hidden), model(**batch).logits)
    assert decoder(model).weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("family", FAMILIES)
def test_detectors_score_every_token_after_a_trip_to_the_disk(family, batch, tmp_path):
    model = new_detector(size(family), 50).eval()
    scores = detection_scores(model, batch["input_ids"], batch)
    assert scores.shape == (2, 9)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).eval()
    assert_close(detection_scores(loaded, batch["input_ids"], batch), scores)
