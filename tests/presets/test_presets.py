"""Presets are whole configurations, written and read back alike; published ones as published."""

import pytest
from jsonschema import Draft7Validator

from road_ray.config import flatten, json_schema, load, to_dict, to_yaml
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


PRETRAININGS = [name for name, preset in PRESETS.items() if preset.verb == "pretrain"]


@pytest.mark.parametrize("name", PRETRAININGS)
def test_shapes_can_be_built_and_options_belong_to_the_objective(name):
    config = preset_config(name)
    hugging_face_config(config.encoder, 30522)
    hugging_face_config(
        scale_encoder(config.encoder, config.generator.scale, config.generator.depth), 30522
    )
    assert config.data.max_length_tokens <= config.encoder.max_length_tokens
    assert config.training.steps
    given = config.objective.model_dump(exclude={"name", "options"}, exclude_none=True)
    given |= config.objective.options
    assert given.keys() <= options_of(objective_class(config.objective.name)).keys()


_SMALL = {"encoder.layers": 12, "encoder.hidden_size": 256, "data.batch_size": 128}
PUBLISHED = {  # ELECTRA: table 6 of Clark et al.
    "electra_small": _SMALL | {"optimizer.peak_lr": 5e-4},
    "electra_small_plus": _SMALL | {"generator.scale": 1.0, "training.steps": 4_000_000},
    "electra_base": {"encoder.hidden_size": 768, "data.batch_size": 256, "optimizer.peak_lr": 2e-4},
    "electra_large": {"encoder.layers": 24, "encoder.hidden_size": 1024, "encoder.heads": 16}
    | {"data.batch_size": 2048, "optimizer.peak_lr": 2e-4, "objective.choose_fraction": 0.25},
    "mc_bert_base": {"generator.scale": 1 / 3, "optimizer.peak_lr": 1e-4},
    "teams_small": {"generator.scale": 1.0, "generator.depth": 0.5, "training.steps": 500_000},
    "alectra_small": {"encoder.family": "albert"},
    "weighted_kd_squad_v2": {"weighting.wrong": 0.75},
    "glue_from_mnli": {f"pool.{name}.init": "mnli" for name in ("rte", "stsb", "mrpc")},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_values_are_as_published(name):
    assert PUBLISHED[name].items() <= flatten(to_dict(preset_config(name))).items()


def test_teachers_and_students_share_the_data_of_their_fine_tuning():
    single = preset_config("squad_v2_small")
    for name in ("three_teachers_squad_v2", "weighted_kd_squad_v2"):
        config = preset_config(name)
        shared = {name: getattr(config.data, name) for name in vars(single.data)}
        assert shared == vars(single.data)
        assert config.run_dir != single.run_dir


def test_a_preset_may_begin_with_another():
    assert get_preset("teams_base").values()["generator"] == {"scale": 1.0, "depth": 0.5}
    get_preset("teams_base").values()["generator"]["scale"] = 9.0
    assert preset_config("teams_base").generator.scale == 1.0
