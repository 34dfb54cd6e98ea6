"""What a training refuses to be told."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from road_ray.training.config import TrainingConfig


@pytest.mark.parametrize("address", ["s3://key:secret@bucket/run", "s3://b/r?secret_key=abc"])
def test_keys_in_a_mirrors_address_are_refused(address):
    with pytest.raises(ValidationError, match="holds a key"):
        TrainingConfig(mirror=address)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"passes": 0},
        {"precision": "fp16"},
        {"early_stopping": {"patience": 0}},
    ],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TrainingConfig(**wrong)
