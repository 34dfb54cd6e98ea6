"""Published configurations differ from each other where the papers say so, and nowhere else."""

from __future__ import annotations

from road_ray.objectives.pretraining.registry import objective_class, options_of
from road_ray.presets import PRESETS
from road_ray.verbs import preset_config

PUBLISHED = [one for one in PRESETS.values() if one.verb == "pretrain"]


def test_options_that_are_set_belong_to_the_objective():
    for preset in PUBLISHED:
        objective = preset_config(preset.name).objective
        given = objective.model_dump(exclude={"name", "options"}, exclude_none=True)
        given |= objective.options
        assert given.keys() <= options_of(objective_class(objective.name)).keys(), preset.name


def test_every_preset_names_its_source_or_says_that_it_is_our_choice():
    for item in PRESETS.values():
        assert "Source:" in item.about or "ur choice" in item.about, item.name


def test_the_two_lines_differ_as_published():
    made = {preset.name: preset_config(preset.name) for preset in PUBLISHED}
    small, plus = made["electra_small"], made["electra_small_plus"]
    assert (plus.generator.scale, plus.training.steps) == (1.0, 4_000_000)
    assert plus.encoder == small.encoder
    assert made["mc_bert_base"].generator.scale == 1 / 3
    assert (made["mc_bert_base"].optimizer.betas[1], made["mc_bert_base"].optimizer.peak_lr) == (
        0.98,
        1e-4,
    )
    teams = made["teams_small"]
    assert (teams.generator.scale, teams.generator.depth, teams.training.steps) == (
        1.0,
        0.5,
        500_000,
    )
    assert made["alectra_small"].encoder.family == "albert"
