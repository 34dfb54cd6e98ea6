"""Copies on a mirror tell of which run they are; runs inside another have places of their own; the
keys that a run directory is bound to.
"""

from pathlib import Path

import pytest

import road_ray as rr
from road_ray.config import to_yaml
from road_ray.errors import CheckpointError, ConfigError
from road_ray.experiment.expand import Experiment
from road_ray.recipes.run_directory.recorded_config import RECORD, load_recorded
from road_ray.recipes.several_runs import finetunings, generations, single_teachers
from road_ray.recipes.sweep.config import StageConfig, SweepConfig
from road_ray.recipes.sweep.trials import runs_of
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.training.config import TrainingConfig
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import configure
from tests.runs import weights

OUTER = Path("runs/outer")
MIRROR = {"training.mirror": "s3://bucket/all?region=x"}
ARMS = MIRROR | {f"pretrain.{key}": address for key, address in MIRROR.items()}
ARMS |= {"num_seeds": 2, "data.root": "miniature", "data.dataset": "sst2"}


def _arms(config):
    return [job.config for job in Experiment(config).jobs.values()]


def _trials(_):
    stages = {"overrides": MIRROR, "then": StageConfig(verb="finetune", overrides=MIRROR)}
    space = {"data.batch_size": {"int": [1, 2]}}
    sweep = SweepConfig(verb="pretrain", run_dir=OUTER, metric="m", space=space, **stages)
    places = [(OUTER / "trials" / f"{n:04d}", seed) for n in range(2) for seed in range(2)]
    return [run for place, seed in places for _, run in runs_of(sweep, {}, place, seed)]


@pytest.mark.parametrize(
    ("verb", "keys", "inner"),
    [
        ("teachers", MIRROR | {"num_folds": 2, "num_teachers": 2}, single_teachers),
        ("finetune", MIRROR | {"pool": {"rte": {}, "mnli": {}}, "num_seeds": 2}, finetunings),
        ("distill", MIRROR | {"distillation.generations": 3}, generations),
        ("reproduce", ARMS, _arms),
        ("pretrain", {}, _trials),
    ],
)
def test_runs_inside_a_run_have_copies_where_their_directories_are(verb, keys, inner):
    runs = inner(configure(verb, overrides=keys | {"run_dir": OUTER}))
    assert len({run.training.mirror for run in runs}) == len(runs) > 1
    for run in runs:
        place = run.run_dir.relative_to(OUTER)
        assert run.training.mirror == f"s3://bucket/all/{place}?region=x"


def test_without_a_mirror_there_is_none_below():
    assert TrainingConfig().mirrored_below(Path("a")).mirror is None
    below = TrainingConfig(mirror="/disk/what?/").mirrored_below(Path("a/b"))
    assert below.mirror == "/disk/what?/a/b"
    with pytest.raises(ValueError, match="at least 1 character"):  # it was the working directory
        TrainingConfig(mirror="")


def test_a_mirror_of_another_run_is_refused_and_of_the_same_one_taken(sentiment, tmp_path):
    mirrored = sentiment | {"training.steps": 1, "training.mirror": str(tmp_path / "mirror")}
    first = rr.finetune(overrides=mirrored, run_dir=tmp_path / "first")
    with pytest.raises(CheckpointError) as refused:
        rr.finetune(overrides=mirrored, run_dir=tmp_path / "second", seed=1)
    text = str(refused.value)
    assert f"{tmp_path}/mirror/step-00000001: is of another run:" in text
    assert "\n    seed: then 0, now 1\n  fix: name another training.mirror" in text
    assert not [*(tmp_path / "second" / "checkpoints").iterdir()]
    # Another machine: the data lie elsewhere, and rows are logged more often.
    (tmp_path / "link").symlink_to(mirrored["data.root"])
    moved = {"data.root": str(tmp_path / "link"), "training.log_every_steps": 7}
    again = rr.finetune(overrides=mirrored | moved, run_dir=tmp_path / "second")
    assert weights(again) == weights(first)
    kinds = [event["kind"] for event in read_rows(again.directory / "events.jsonl")]
    assert kinds == ["initialized"] * 2 + ["fetched_from_mirror", "resumed", "checkpoints_removed"]


def test_a_key_that_is_gone_and_was_empty_keeps_no_run_from_going_on(tmp_path):
    config = FinetuneConfig(init="x", label_map={"LABEL_0": "negative"})
    text = to_yaml(config).replace("\ndata:\n", "\nolder: []\ndata:\n  older:\n  oldest: {}\n")
    assert (text.count("older"), text.count("oldest")) == (2, 1)
    (tmp_path / RECORD).write_text(text)
    assert load_recorded(FinetuneConfig, tmp_path / RECORD) == config
    (tmp_path / RECORD).write_text(text.replace("  older:", "  older: 64"))
    with pytest.raises(ConfigError, match=r"data\.older = 64(?s:.*)with the version") as refused:
        load_recorded(FinetuneConfig, tmp_path / RECORD)
    assert "remove" not in str(refused.value)
