"""Presets are whole configurations, written and read back alike; published ones as published."""

import pytest
from jsonschema import Draft7Validator

from road_ray.config import json_schema, load, to_dict, to_yaml
from road_ray.models.encoder import hugging_face_config, scale_encoder
from road_ray.objectives.pretraining.registry import objective_class, options_of
from road_ray.presets import PRESETS, get_preset
from road_ray.verbs import VERBS, configure, preset_config


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_preset_is_a_file_that_a_user_may_write_and_names_its_source(preset, tmp_path):
    config, file = preset_config(preset.name), tmp_path / "mine.yaml"
    kind = VERBS[preset.verb].config
    assert type(config) is kind
    file.write_text(preset.text)
    assert configure(preset.verb, path=file) == config
    file.write_text(to_yaml(config))
    assert load(kind, path=file) == config
    Draft7Validator.check_schema(json_schema(kind))
    Draft7Validator(json_schema(kind)).validate(to_dict(config))
    first = preset.text.splitlines()[0]
    assert first == f"# yaml-language-server: $schema={preset.verb}.schema.json"
    assert "Source:" in preset.about or "ur choice" in preset.about


@pytest.mark.parametrize("name", [n for n, p in PRESETS.items() if p.verb == "pretrain"])
def test_shapes_can_be_built(name):
    config = preset_config(name)
    hugging_face_config(config.encoder, 30522)
    hugging_face_config(
        scale_encoder(config.encoder, config.generator.scale, config.generator.depth), 30522
    )
    assert config.data.max_length_tokens <= config.encoder.max_length_tokens
    assert config.training.steps


def test_published_sizes_are_as_in_table_6():
    small, base, large = (preset_config(f"electra_{n}") for n in ("small", "base", "large"))
    sizes = [
        (c.encoder.layers, c.encoder.hidden_size, c.data.batch_size) for c in (small, base, large)
    ]
    assert sizes == [(12, 256, 128), (12, 768, 256), (24, 1024, 2048)]
    assert [c.optimizer.peak_lr for c in (small, base, large)] == [5e-4, 2e-4, 2e-4]
    assert large.objective.choose_fraction == 0.25
    assert large.encoder.heads == large.encoder.hidden_size // 64


def test_teachers_and_students_share_the_data_of_their_fine_tuning():
    single = preset_config("squad_v2_small")
    for name in ("three_teachers_squad_v2", "weighted_kd_squad_v2"):
        config = preset_config(name)
        shared = {name: getattr(config.data, name) for name in vars(single.data)}
        assert shared == vars(single.data)
        assert config.run_dir != single.run_dir
    assert preset_config("weighted_kd_squad_v2").weighting.wrong == 0.75


def test_a_preset_may_begin_with_another():
    assert get_preset("teams_base").values()["generator"] == {"scale": 1.0, "depth": 0.5}
    get_preset("teams_base").values()["generator"]["scale"] = 9.0
    assert preset_config("teams_base").generator.scale == 1.0


PUBLISHED = [one for one in PRESETS.values() if one.verb == "pretrain"]


def test_options_that_are_set_belong_to_the_objective():
    for preset in PUBLISHED:
        objective = preset_config(preset.name).objective
        given = objective.model_dump(exclude={"name", "options"}, exclude_none=True)
        given |= objective.options
        assert given.keys() <= options_of(objective_class(objective.name)).keys(), preset.name


def test_the_two_lines_differ_as_published():
    made = {preset.name: preset_config(preset.name) for preset in PUBLISHED}
    small, plus = made["electra_small"], made["electra_small_plus"]
    assert (plus.generator.scale, plus.training.steps) == (1.0, 4_000_000)
    assert plus.encoder == small.encoder
    assert made["mc_bert_base"].generator.scale == 1 / 3
    optimizer, teams = made["mc_bert_base"].optimizer, made["teams_small"]
    assert (optimizer.betas[1], optimizer.peak_lr) == (0.98, 1e-4)
    assert (teams.generator.scale, teams.generator.depth) == (1.0, 0.5)
    assert teams.training.steps == 500_000
    assert made["alectra_small"].encoder.family == "albert"
