"""Seeds and pools of fine-tunings: who starts from whom, what is counted, one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import road_ray as rr
from road_ray.config import override
from road_ray.errors import ConfigError, DataError
from road_ray.evaluation.glue import average
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuningsConfig
from road_ray.recipes.finetuning.seeds_and_datasets import plan_runs, summarise_seeds, table
from road_ray.verbs import preset_config


def test_glue_has_the_epochs_of_the_paper_and_leaves_out_what_is_not_there(real_data: Path, caplog):
    changes = {"data.root": str(real_data), "init": "x", "num_seeds": 2, "seed": 5}
    config = override(preset_config("glue"), changes)
    runs = plan_runs(config)
    epochs = {item.data.dataset: item.data.epochs for item in runs}
    assert {name for name, value in epochs.items() if value == 10} == {"rte", "stsb"}
    assert len(epochs) == 9
    assert [item.seed for item in runs[:2]] == [5, 6]
    assert runs[0].run_dir == config.run_dir / "cola" / "seed-5"
    (mnli,) = [item for item in runs if item.run_dir.parts[-2:] == ("mnli", "seed-5")]
    assert mnli.data.evaluate_on == ("mnli",), "the mismatched set is not at hand there"
    assert {type(item) for item in runs} == {FinetuneConfig}


def test_one_may_start_from_another_of_the_same_seed(tmp_path):
    config = override(preset_config("glue_from_mnli"), {"init": "x", "num_seeds": 2})
    config = override(config, {"only_at_hand": False, "run_dir": tmp_path})
    runs = plan_runs(config)
    first = [item for item in runs if item.init == "x"]
    second = runs[len(first) :]
    assert {item.data.dataset for item in second} == {"rte", "stsb", "mrpc"}
    assert all(item.init == str(tmp_path / "mnli" / f"seed-{item.seed}") for item in second)


@pytest.mark.parametrize("start_from", [{"rte": "mnlu"}, {"rte": "mrpc", "mrpc": "cola"}])
def test_a_start_that_is_not_there_is_told(start_from):
    config = FinetuningsConfig(pool={"rte": {}, "mrpc": {}, "cola": {}}, start_from=start_from)
    with pytest.raises(ConfigError, match=r"start_from: rte is to start from m"):
        plan_runs(config)


def test_spread_by_hand():
    figures = summarise_seeds(
        [{"eval/cola/matthews": v, "data/n": 1.0} for v in (10.0, 40.0, 70.0, 80.0)]
    )
    assert figures == {
        "eval/cola/matthews": 50.0,
        "data/n": 1.0,
        "eval/cola/matthews_median": 55.0,
        "eval/cola/matthews_best": 80.0,
        "eval/cola/matthews_deviation": pytest.approx(1000**0.5),
    }
    (row,) = table(figures, 4)
    assert row["data set"], row["metric"] == ("cola", "matthews")
    assert (row["mean"], row["median"], row["best"]) == (50.0, 55.0, 80.0)


def test_the_average_of_medians_is_counted_as_the_paper_counts():
    names = [f"eval/{name}/accuracy" for name in ("sst2", "mrpc", "qqp", "mnli", "qnli", "rte")]
    names += ["eval/cola/matthews", "eval/stsb/spearman"]
    seeds = [dict.fromkeys(names, value) for value in (10.0, 20.0, 60.0)]
    seeds[0]["eval/cola/matthews"] = 90.0
    figures = summarise_seeds(seeds)
    assert figures["glue/electra_median"] == (7 * 20 + 60) / 8
    assert figures["glue/electra"] == pytest.approx((7 * 30 + 170 / 3) / 8)
    assert figures["glue/electra_best"] == (7 * 60 + 90) / 8
    assert figures["glue/electra"] == pytest.approx(
        sum(average(s)["glue/electra"] for s in seeds) / 3
    )
    assert [row["metric"] for row in table(figures, 3)][-1] == "electra"


@pytest.fixture(scope="module")
def pool(sentiment, tmp_path_factory):
    """Two seeds of two data sets, one of which starts from the other."""
    changes = {name: value for name, value in sentiment.items() if name != "data.dataset"}
    changes |= {"training.steps": 2, "pool": {"mnli": {}, "sst2": {"data.batch_size": 8}}}
    changes |= {"start_from": {"sst2": "mnli"}, "num_seeds": 2}
    directory = tmp_path_factory.mktemp("runs") / "pool"
    return rr.finetune(overrides=changes, run_dir=directory)


def test_a_pool_is_one_run_with_one_table(pool):
    run = pool
    rows = json.loads((run.directory / "tasks.json").read_text())
    assert [(row["data set"], row["metric"]) for row in rows] == [
        ("mnli", "accuracy"),
        ("sst2", "accuracy"),
    ]
    assert set(rows[0]) == {"data set", "metric", "mean", "deviation", "median", "best"}
    ours = [run.directory / "sst2" / f"seed-{seed}" / "metrics.json" for seed in (0, 1)]
    values = [json.loads(path.read_text())["eval/sst2/accuracy"] for path in ours]
    assert run.metrics["eval/sst2/accuracy"] == pytest.approx(sum(values) / 2)
    assert run.metrics["eval/sst2/accuracy_best"] == max(values)
    output = json.loads((run.directory / "sst2" / "seed-1" / "hf" / "road_ray.json").read_text())
    assert output["init"] == str(run.directory / "mnli" / "seed-1")
    assert output["columns"] == {"text": "sentence"}
    output = json.loads((run.directory / "mnli" / "seed-1" / "hf" / "road_ray.json").read_text())
    assert list(output["columns"]) == ["text", "text_pair"]


def test_a_pool_with_a_missing_data_set_does_not_start(sentiment, world, tmp_path):
    pool = {"sst2": {}, "snli": {}}
    message = rf"no files of snli \(train\), snli \(dev\) below {world}"
    with pytest.raises(DataError, match=message) as error:
        rr.finetune(overrides=sentiment | {"pool": pool}, run_dir=tmp_path / "run")
    assert "only_at_hand=true" in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pool": {"mnli": {}, "rte": {"data.evaluate_on": ["rte", "mnli"]}}},
            r"mnli is evaluated after mnli and after rte, and both figures would be eval/mnli",
        ),
        (
            {"pool": {"mnli": {}, "sst2": {"data.evaluate_on": ["sst2", "mnli"]}}},
            r"mnli is evaluated after mnli and after sst2",
        ),
        (
            {"pool": {"sst2": {"data.evaluate_on": ["sst2", "mnli"]}}},
            r"data.evaluate_on: mnli is of task nli, sst2 of task sentiment",
        ),
        (
            {"pool": {"sst2": {}}, "num_seeds": 2, "training.evaluate_every_steps": 1}
            | {"training.early_stopping.patience": 1}
            | {"training.early_stopping.metric": "eval/mnli/accuracy"},
            r"early_stopping.metric = eval/mnli/accuracy: not evaluated while training",
        ),
    ],
)
def test_what_would_fail_late_in_a_pool_is_named_first(sentiment, tmp_path, changes, message):
    sentiment = {name: value for name, value in sentiment.items() if name != "data.dataset"}
    with pytest.raises(ConfigError, match=message):
        rr.finetune(overrides=sentiment | changes, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_seed_of_one_set_is_a_plain_run(sentiment, tmp_path):
    run = rr.finetune(overrides=sentiment, run_dir=tmp_path)
    assert run.hf_dir.is_dir()
    assert "num_seeds" not in (tmp_path / "config.resolved.yaml").read_text()
