"""Preset, file and overrides become one configuration; flat names find their keys."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import road_ray as rr
from road_ray.config import Config
from road_ray.errors import ConfigError
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.verbs import VERBS, configure, perform


@pytest.fixture
def performed(recipe):
    """Verbs that run nothing: what reached the recipe."""
    seen: list[tuple[object, ...]] = []
    recipe(lambda *given, context: seen.append(given))
    return seen


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_a_configuration_and_a_recipe(name):
    assert issubclass(VERBS[name].config, Config)
    assert callable(VERBS[name].run)
    assert getattr(rr, name).__doc__ == VERBS[name].docstring
    configured = configure(name)
    # An experiment needs arms, which the name of a comparison brings.
    assert name == "reproduce" or configured == VERBS[name].config()


def test_a_file_goes_over_a_preset_and_overrides_over_both(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("preset: squad_v2_small\nseed: 4\ndata: {epochs: 1, batch_size: 8}\n")
    config = configure("finetune", path=file, overrides=["data.batch_size=4"])
    assert config.data.dataset == "squad_v2"
    assert (config.seed, config.data.epochs, config.data.batch_size) == (4, 1.0, 4)
    assert configure("finetune", preset="sst2_small", path=file).data.dataset == "sst2"
    file.write_text("data: {dataset: sst2}\n")  # of a training: its data are evaluated
    by_text = configure("evaluate", path=file, overrides="init = x")
    assert by_text == configure("evaluate", path=file, overrides={"init": "x"})
    file.write_text("data: 3\n")
    with pytest.raises(ConfigError, match="data = 3"):
        configure("evaluate", path=file)  # was a TypeError


def test_a_configuration_a_file_or_names_may_be_given(performed, tmp_path):
    (tmp_path / "a.yaml").write_text("seed: 1\n")
    perform("finetune", FinetuneConfig(seed=1), overrides={"data.epochs": 2})
    perform("finetune", str(tmp_path / "a.yaml"), init=Path("runs/pretrain"))
    perform("finetune", overrides=["seed=1"], run_dir=Path("x"))
    perform("finetune", FinetuneConfig(), overrides=["seed=1"], init="x")
    configs = [given[0] for given in performed]
    assert [config.seed for config in configs] == [1, 1, 1, 1]
    assert configs[0].data.epochs == 2
    assert configs[1].init == "runs/pretrain"
    assert configs[2].run_dir == Path("x")


def test_keys_by_name_decide_as_overrides_do(performed):
    arms = {"slow": {"keys": {"optimizer.peak_lr": 1e-5}}, "fast": {}}
    perform("reproduce", comparison="noisy_labels")
    perform("reproduce", overrides={"comparison": "noisy_labels"})
    perform("reproduce", experiment={"arms": arms}, init="runs/encoder")
    perform("pretrain", preset="electra_small", init="runs/encoder", data={"root": "DATA"})
    perform("reproduce", overrides={"comparison": "noisy_labels"}, experiment={"arms": arms})
    perform("reproduce", overrides=["comparison = 'noisy_labels'"])
    by_name, by_override, own, encoder, added, quoted = (given[0] for given in performed)
    assert by_name == by_override == quoted  # with the keys of that comparison
    assert [*added.experiment.arms] == [*by_name.experiment.arms, "slow", "fast"]
    assert (own.comparison, [*own.experiment.arms]) == ("own", ["slow", "fast"])
    assert (encoder.data.tokenizer, encoder.data.root) == (None, "DATA")  # not the preset's


def test_unknown_names_are_refused(performed):
    with pytest.raises(ConfigError, match="did you mean 'seed'"):
        rr.finetune(sead=1)
    with pytest.raises(ConfigError, match="no such key"):
        rr.finetune(temperature=2.0)  # a name of distillation only
    assert not performed


def test_flat_names_of_distillation_find_their_keys(performed):
    rr.distill(
        student="google/electra-base-discriminator",
        task="squad_v2",
        teachers=["a", Path("b")],
        temperature=3.0,
        kd_weight=0.25,
        wrong=0.5,
        rule="mean",
        span_correctness="joint",
        seed=2,
    )
    ((config,),) = performed
    assert config.init == "google/electra-base-discriminator"
    assert config.data.dataset == "squad_v2"
    assert config.distillation.teachers == ("a", "b")
    assert (config.distillation.num_teachers, config.seed) == (None, 2)  # as many as are named
    assert (config.distillation.temperature, config.distillation.kd_weight) == (3.0, 0.25)
    assert (config.weighting.wrong, config.weighting.rule) == (0.5, "mean")


def ensemble(host, store=None):
    told = {"settings": {"host": host, "store": store and str(store)}}
    return SimpleNamespace(inner="actors", directories=["a", "b"], host=host, store=store, **told)


def test_teachers_in_actors_are_handed_on_and_those_in_this_process_are_named(performed):
    rr.distill(teachers=ensemble("actors"), temperature=1.5)
    rr.distill(teachers=ensemble("process"))
    rr.distill(teachers=ensemble("actors", store=Path("s")))
    first, second, third = performed
    assert first[1:] == ("actors",)
    assert first[0].distillation.temperature == 1.5
    assert second[0].distillation.teachers == third[0].distillation.teachers == ("a", "b")
    assert second[0].distillation.host == "process"
    assert third[0].distillation.store == Path("s")


def test_a_sweep_takes_a_text_and_every_kind_of_value(monkeypatch):
    from road_ray.recipes.sweep import sweep as module

    seen = []
    monkeypatch.setattr(module, "run", seen.append)
    rr.sweep("weighted_kd", overrides="trials=2", address=None, seeds=2)
    rr.sweep("weighted_kd", ["trials=2"], address="host:1")
    rr.sweep("weighted_kd", {"trials": 2}, address=None)
    assert [config.trials for config in seen] == [2, 2, 2]
    assert [config.address for config in seen] == [None, "host:1", None]
    assert seen[0].seeds == 2


def test_a_forgotten_teacher_is_an_error_in_python_too(performed):
    rr.distill(teachers=["a", "b"], num_teachers=3)
    rr.distill(teachers=["a", "b"], overrides=["distillation.num_teachers=3"])
    rr.distill(teachers=["a", "b"], overrides={"seed": 1})
    rr.distill(teachers=ensemble("actors"), num_teachers=3)
    rr.distill(teachers="runs/teachers.json", overrides={"distillation.num_teachers": 5})
    asked = [given[0].distillation.num_teachers for given in performed]
    assert asked == [3, 3, None, 3, 5]  # `locate_teachers` refuses all of two but the third


def test_a_tokenizer_that_is_named_stays_though_the_preset_names_the_same():
    preset = configure("pretrain", preset="electra_small")
    named = f"data.tokenizer={preset.data.tokenizer}"
    kept = configure("pretrain", preset="electra_small", overrides=["init=x", named])
    assert kept.data.tokenizer == preset.data.tokenizer is not None
    of_init = configure("pretrain", preset="electra_small", overrides=["init=x"])
    assert of_init.data.tokenizer is None


def test_keys_of_one_data_set_take_every_value_that_the_keys_take():
    from road_ray.recipes.several_runs import finetunings

    keys = {
        "optimizer.bias_correction": True,
        "student.layers": [0, 2],
        "training.steps": None,
        "data.epochs": 10,
    }
    config = configure("finetune", overrides={"init": "x", "pool": {"rte": keys, "sst2": {}}})
    rte, sst2 = finetunings(config)
    assert (rte.optimizer.bias_correction, rte.student.layers) == (True, (0, 2))
    assert (rte.training.steps, rte.data.epochs) == (None, 10.0)
    assert sst2.student.layers is None
    reproduced = configure(
        "reproduce", overrides={"comparison": "low_resource", "targets": {"rte": keys}}
    )
    assert reproduced.targets["rte"]["optimizer.bias_correction"] is True


def test_the_package_lists_its_verbs_and_classes_and_has_no_others():
    assert {"finetune", "distill", "Ensemble", "load", "Task"} <= set(dir(rr))
    assert all(getattr(rr, name) is not None for name in rr.__all__)
    with pytest.raises(AttributeError, match="no attribute 'finetun'"):
        _ = rr.finetun
