"""Mistakes that are told before anything starts."""

from __future__ import annotations

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import ConfigError
from road_ray.recipes.preflight_checks import (
    fit_positions,
    warn_of_rates,
)
from road_ray.verbs import configure


@pytest.fixture
def dev(world, pretrained):
    tokenizer = load_tokenizer(pretrained.hf_dir)
    return load_split("mnli", "dev", SourceConfig(root=str(world)), tokenizer)


def test_rows_longer_than_the_position_table_are_refused(dev):
    longest = int(dev.features.lengths.max())
    fit_positions(dev, longest)
    with pytest.raises(ConfigError, match=rf"mnli has rows of {longest} tokens"):
        fit_positions(dev, longest - 1)


@pytest.mark.parametrize(
    ("family", "given", "warns"),
    [
        ("bert", {}, True),
        ("bert", {"optimizer.peak_lr": 5e-5, "optimizer.layer_decay": 1.0}, False),
        ("electra", {}, False),
    ],
)
def test_a_line_warns_of_the_rates_of_another_family(family, given, warns, caplog):
    warn_of_rates(configure("finetune", overrides=given), family)
    assert ("try optimizer.peak_lr=5e-5 optimizer.layer_decay=1" in caplog.text) is warns
