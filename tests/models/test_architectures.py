"""The table of encoder families."""

from __future__ import annotations

import pytest
from torch import nn

from road_ray.models.architectures import FAMILIES, detector_output
from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import build_encoder, hugging_face_config, new_detector


def size(family):
    width = 32 if family == "bert" else 16
    return EncoderConfig(
        family=family, layers=1, hidden_size=32, heads=2, embedding_size=width, max_length_tokens=16
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_is_of_its_family_and_has_no_pooler(family):
    encoder = build_encoder(hugging_face_config(size(family), 50))
    assert encoder.config.model_type == family
    assert getattr(encoder, "pooler", None) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_detector_ends_in_one_number(family):
    output = detector_output(new_detector(size(family), 50))
    assert isinstance(output, nn.Linear)
    assert output.out_features == 1
