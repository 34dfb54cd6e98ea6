"""Search spaces by path and by shipped name; every mistake in one is reported with its line."""

import pytest

from road_ray.config import InvalidConfig, load, override
from road_ray.distributed.tune.search_config import decode_params
from road_ray.distributed.tune.study import ask, open_study
from road_ray.errors import ConfigError
from road_ray.recipes.sweep.config import SHIPPED, StageConfig, SweepConfig, locate, shipped
from road_ray.recipes.sweep.trials import base_config, load_sweep, split_by_stage


def test_a_shipped_one_is_found_from_anywhere_and_an_unknown_one_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for named in ("weighted_kd", "search_spaces/weighted_kd.yaml"):
        assert locate(named) == SHIPPED / "weighted_kd.yaml"
    for named in ("weighted_kdd", "elsewhere/weighted_kd.yaml"):
        with pytest.raises(ConfigError, match="did you mean 'weighted_kd'"):
            locate(named)


def test_a_key_of_the_verb_is_told_to_belong_under_overrides(tmp_path):
    (tmp_path / "x.yaml").write_text("verb: finetune\ndata: {root: miniature}\n")
    with pytest.raises(ConfigError, match=r"under 'overrides': \{data: \.\.\.\}"):
        load(SweepConfig, path=tmp_path / "x.yaml")


def test_overrides_of_a_stage_may_be_nested():
    stage = StageConfig(verb="finetune", overrides={"data": {"dataset": "rte"}, "seed": 1})
    assert stage.overrides == {"data.dataset": "rte", "seed": 1}


FILE = """\
verb: finetune
overrides: {data.dataset: sst2, training.evaluate_every_steps: 2}
metric: eval/sst2/accuracy
space:
  optimizer.peak_lr: {loguniform: [1.0e-4, 1.0e-2]}
  data.batch_size: {choice: [8, 16]}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    return path


PROMISED = {
    *("generator_size", "loss_weight", "temperature", "weighted_kd", "multitask_mix"),
    *("finetune_glue", "pretrain_optimizer", "joint"),
}


@pytest.mark.parametrize("name", sorted(PROMISED | {*shipped()}))
def test_shipped_spaces_have_source_and_cost_and_build_their_base_and_all_their_draws(
    name, tmp_path
):
    text = shipped()[name].read_text(encoding="utf-8")
    assert "# Source: " in text
    assert "# Cost: " in text
    sweep = load_sweep(name, ["sampler=random"])
    assert sweep.name == name
    study = open_study(sweep, name, tmp_path)
    for _ in range(25):
        changes = decode_params(sweep.space, ask(study, sweep).params)
        for stage, values in zip(sweep.stages, split_by_stage(changes), strict=False):
            override(base_config(stage), values)


def test_files_of_own_data_sets_lie_beside_the_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "r.csv").write_text("t,l\nred,a\n")
    file = tmp_path / "project" / "mine.yaml"
    own = "{mine: {train: r.csv, dev: elsewhere.csv, text: [t], label: l, labels: [a, b]}}"
    for written in (f"data.sets: {own}", f"data: {{sets: {own}}}"):
        text = FILE.replace("data.dataset: sst2", f"data.dataset: mine, {written}")
        file.write_text(text.replace("eval/sst2", "eval/mine"))
        base = base_config(load_sweep(file, ["init=x"]).stages[0])
        assert base.data.sets["mine"].train == str(tmp_path / "project" / "r.csv")
        assert base.data.sets["mine"].dev == "elsewhere.csv"


def test_the_verbs_own_keys_need_no_prefix(file):
    sweep = load_sweep(file, ["init=runs/x", "trials=3", "data.root=miniature"])
    assert sweep.overrides["init"] == "runs/x"
    assert sweep.overrides["data.root"] == "miniature"
    assert (sweep.trials, sweep.name) == (3, "mine")
    assert load_sweep(file, ["init=1e5"]).overrides["init"] == "1e5"  # a directory, not a number
    assert load_sweep(file, ["init='1e5'"]).overrides["init"] == "1e5"
    assert load_sweep(file, {"init": "x", "seeds": 2}).overrides["init"] == "x"


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        (5, "optimizer.peak_rl: {uniform: [0, 1]}", "did you mean 'optimizer.peak_lr'"),
        (5, "optimizer.peak_lr: {uniform: [0.1, 5]}", "0 < value <= 1"),
        (5, "then.seed: {int: [0, 1]}", "there is no `then`"),
        (5, "seed: {int: [0, 1]}", "`seeds` repeats trials"),
        (5, "data.max_rows: {uniform: [8, 16]}", "data.max_rows = 10.943"),
    ],
)
def test_a_wrong_range_is_told_with_its_line(file, line, wrong, message):
    file.write_text(FILE.replace("optimizer.peak_lr: {loguniform: [1.0e-4, 1.0e-2]}", wrong))
    with pytest.raises(InvalidConfig) as error:
        load_sweep(file)
    assert message in str(error.value)
    assert f"{file}:{line}" in str(error.value)


def test_a_metric_or_point_that_no_trial_has_is_told_and_a_scheduler_needs_figures(file):
    for given, message in (
        ("metric=eval/sst2/acc", "did you mean 'eval/sst2/accuracy'"),
        ("metric=eval/rte/f1", "override 'metric=eval/rte/f1'"),
        ("points=[{optimizer.peak_lr: 7}]", r"optimizer\.peak_lr = 7"),
        ("training.evaluate_every_steps=null", "evaluate_every_steps"),
    ):
        with pytest.raises(InvalidConfig, match=message):
            load_sweep(file, [given])
    assert load_sweep(file, ["training.evaluate_every_steps=null", "scheduler=none"])
    assert load_sweep(file, ["workers=2"]), "a trial's workers are heard too"


def test_overrides_of_a_sweep_take_lists_without_brackets_and_words_as_they_are():
    words = ["init=hub/x", "overrides.distillation.teachers=a,b", "overrides.student.layers=3"]
    config = load_sweep("temperature", [*words, "overrides.distillation.schedule=linear"])
    assert config.overrides["distillation.schedule"] == "linear"
    assert config.overrides["student.layers"] == 3
    assert list(config.overrides["distillation.teachers"]) == ["a", "b"]
