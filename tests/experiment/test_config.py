"""Keys of a comparison: what it does not use, and names that do not exist, are errors. Published
comparisons: every arm is a configuration of its verbs, and has the papers' figures.
"""

import pytest

from road_ray.config import override
from road_ray.errors import ConfigError
from road_ray.experiment.config import CATALOGUE
from road_ray.recipes.pretraining.preview import flops_per_step
from road_ray.recipes.train.config import DistillConfig, FinetuneConfig, TeachersConfig
from road_ray.verbs import configure


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["experiment.arms={a: {start_from: b}, b: {start_from: a}}"], r"a cycle of .*a -> b -> a"),
        (["experiment.arms={a: {start_from: b}, b: {start_from: c}}"], r"b.start_from = c: there"),
        (["experiment.arms={a: {against: [c]}, b: {}}"], r"arms: a.against = c: there is none"),
        (["experiment.arms={a: {}, b: {against: [a, a]}}"], r"b.against: .* each once"),
        (["experiment.arms={a: {against: [a]}}"], r"a.against: allowed: other arms"),
        (["experiment.arms={a: {}, ../c: {}}"], "'../c': an arm or an ensemble is named as"),
        (
            [
                "experiment.ensembles={t: {}}",
                "experiment.arms={a: {teachers: t, combine: ensemble}, b: {start_from: a}}",
            ],
            "b.start_from = a: leaves no model",
        ),
        (["experiment.arms={a: {keys: {seed: 5}}, b: {}}"], r"arms: a\.seed: it is that of all"),
        (
            ["experiment.ensembles={t: {run_dir: x}}", "experiment.arms={a: {teachers: t}}"],
            r"ensembles: t\.run_dir: it is that of all",
        ),
        (["experiment={equal: steps, arms: {a: {}}}"], r"arms: a\.stages: needed where equal = st"),
        (["comparison=low_resource", "targets={sst2: {seed: 1}}"], r"targets\.seed: it is that"),
        (["comparison=own"], "experiment.arms: an experiment of your own needs arms"),
        (["experiment.arms={a: {teachers: mine}}"], r"a.teachers = mine"),
        (["comparison=lowresource"], "did you mean 'low_resource'"),
        (["comparison=low_resource", "flops=1e12"], "flops: comparison low_resource does not use"),
        (["comparison=table5", "init=runs/a"], "init: comparison table5 does not use it"),
        (["comparison=compression", "multitask.training.steps=5"], "multitask: comparison"),
        (["comparison=low_resource", "arms=[men]"], "did you mean 'mean'"),
        (["comparison=domain", "weighting.wrong=0.5"], "weighting: comparison domain does not use"),
    ],
)
def test_bad_keys_are_named(given, message):
    with pytest.raises(ConfigError, match=message):
        configure("reproduce", overrides=given)


def test_an_arm_with_nothing_below_it_is_an_arm():
    config = configure("reproduce", overrides=["experiment.arms={a: null, b: {about: B}}"])
    assert [*config.experiment.arms] == ["a", "b"]


def test_a_comparison_that_is_null_is_a_mistake_of_its_line(tmp_path):
    """It was one of the name ``None``."""
    (tmp_path / "x.yaml").write_text("comparison: null\n")
    with pytest.raises(ConfigError, match=r"x.yaml:1  comparison = null\n    allowed: .*table5"):
        configure("reproduce", path=tmp_path / "x.yaml")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_arm_is_a_configuration_of_a_verb(name):
    config = configure("reproduce", overrides={"comparison": name})
    compared = config.experiment
    assert compared.about
    assert compared.source
    for keys in compared.ensembles.values():
        override(TeachersConfig(), keys)
    for number, (arm_name, arm) in enumerate(compared.arms.items()):
        override(DistillConfig() if arm.teachers else FinetuneConfig(), arm.keys)
        assert number == 0 or arm_name not in arm.against
        for stage in arm.stages:
            shared = override(getattr(config, stage.verb), stage.keys)
            assert not compared.equal or flops_per_step(shared) > 0
