"""Presets are whole configurations, written and read back alike."""

from __future__ import annotations

import pytest

from road_ray.config import digest, load, to_yaml
from road_ray.errors import ConfigError
from road_ray.models.encoder import hugging_face_config, scale_encoder
from road_ray.presets import PRESETS, get_preset
from road_ray.training.optimization.learning_rate import rate
from road_ray.verbs import VERBS, configure, preset_config


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_configuration_of_its_verb_and_survives_yaml(name, tmp_path):
    preset = get_preset(name)
    config = preset_config(preset.name)
    kind = VERBS[preset.verb].config
    assert type(config) is kind
    file = tmp_path / "a.yaml"
    file.write_text(to_yaml(config))
    assert load(kind, path=file) == config
    assert digest(preset_config(preset.name)) == digest(config)


def test_what_is_said_of_a_preset_is_whole_sentences():
    said = {name: preset.about for name, preset in PRESETS.items()}
    assert {n: text for n, text in said.items() if not text.endswith(".") or "\n" in text} == {}


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


@pytest.mark.parametrize("name", PRESETS)
def test_the_file_of_a_preset_is_one_that_a_user_may_write(name, tmp_path):
    preset = get_preset(name)
    file = tmp_path / "mine.yaml"
    file.write_text(preset.text)
    assert configure(preset.verb, path=file) == preset_config(preset.name)
    first = preset.text.splitlines()[0]
    assert first == f"# yaml-language-server: $schema={preset.verb}.schema.json"


def test_a_preset_may_begin_with_another():
    assert get_preset("teams_base").values()["generator"] == {"scale": 1.0, "depth": 0.5}
    get_preset("teams_base").values()["generator"]["scale"] = 9.0
    assert preset_config("teams_base").generator.scale == 1.0


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'electra_small'"):
        get_preset("electra_smal")


@pytest.mark.parametrize("name", ["road_large", "road_base", "road_with_kd", "road_small_mix"])
def test_the_rate_of_road_reaches_its_peak_and_then_falls_in_a_line(name):
    """ROaD part 1, section 3.5: warm-up, then linear decrease, here of the default of 500 steps."""
    config = preset_config(name)
    optimizer, total = config.optimizer, config.training.steps
    warmup = optimizer.warmup(total)
    for step in (0, warmup // 2, warmup, (warmup + total) // 2, total - 1):
        by_hand = min(step / warmup, (total - step) / (total - warmup))
        assert rate(step, total, warmup, optimizer.schedule) == pytest.approx(by_hand)
