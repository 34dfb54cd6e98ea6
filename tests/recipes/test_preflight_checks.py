"""Mistakes that are told before anything starts."""

from __future__ import annotations

import pytest

from road_ray.recipes.preflight_checks import warn_of_rates
from road_ray.verbs import configure


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
