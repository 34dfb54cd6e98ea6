"""Runs of several runs: seeds, pools, teachers, folds and generations."""

import json
from pathlib import Path

import pytest

import road_ray as rr
from road_ray.config import load, override
from road_ray.data.training_rows import fold_of
from road_ray.errors import ConfigError
from road_ray.recipes.several_runs import finetunings, summarise_seeds
from road_ray.recipes.train.config import FinetuneConfig, FinetuningsConfig
from road_ray.recipes.train.prepare import prepare
from road_ray.reporting import text_tables
from road_ray.training.worker import Worker
from road_ray.verbs import preset_config
from tests.runs import weights


def test_glue_has_the_epochs_of_the_paper_and_leaves_out_what_is_not_there(real_data: Path, caplog):
    changes = {"data.root": str(real_data), "init": "x", "num_seeds": 2, "seed": 5}
    config = override(preset_config("glue"), changes)
    runs = finetunings(config)
    epochs = {item.data.dataset: item.data.epochs for item in runs}
    assert {name for name, value in epochs.items() if value == 10} == {"rte", "stsb"}
    assert len(epochs) == 9
    assert [item.seed for item in runs[:2]] == [5, 6]
    assert runs[0].run_dir == config.run_dir / "cola" / "seed-5"
    (mnli,) = [item for item in runs if item.run_dir.parts[-2:] == ("mnli", "seed-5")]
    assert mnli.data.evaluate_on == ("mnli",), "the mismatched set is not at hand there"
    assert {type(item) for item in runs} == {FinetuneConfig}


def test_spread_by_hand():
    name = "eval/cola/matthews"
    figures = summarise_seeds([{name: v, "data/n": 1.0} for v in (10.0, 40.0, 70.0, 80.0)])
    spread = {f"{name}_median": 55.0, f"{name}_best": 80.0}
    spread |= {f"{name}_deviation": pytest.approx(1000**0.5), "data/n_deviation": 0.0}
    assert figures == {name: 50.0, "data/n": 1.0} | spread
    lines = [line.split() for line in text_tables.metrics_table(figures).splitlines()]
    assert lines[0] == ["metric", "value", "deviation", "median", "best"]
    assert lines[2] == [name, "50.00", "31.62", "55.00", "80.00"]
    figures = summarise_seeds([{"eval/cola/ece": 3.0, name: 1.0}, {"eval/cola/ece": 5.0}])
    assert figures == {"eval/cola/ece": 4.0, "eval/cola/ece_deviation": pytest.approx(2**0.5)} | {
        "eval/cola/ece_median": 4.0,
        "eval/cola/ece_best": 3.0,  # the smallest error
    }


def test_the_average_of_medians_is_counted_as_the_paper_counts():
    names = [f"eval/{name}/accuracy" for name in ("sst2", "mrpc", "qqp", "mnli", "qnli", "rte")]
    names += ["eval/cola/matthews", "eval/stsb/spearman"]
    seeds = [dict.fromkeys(names, value) for value in (10.0, 20.0, 60.0)]
    seeds[0]["eval/cola/matthews"] = 90.0
    figures = summarise_seeds(seeds)
    assert figures["glue/electra_median"] == (7 * 20 + 60) / 8
    assert figures["glue/electra"] == pytest.approx((7 * 30 + 170 / 3) / 8)
    assert figures["glue/electra_best"] == (7 * 60 + 90) / 8


def test_the_figures_of_a_pool_are_means_over_its_seeds(sentiment, tmp_path):
    """Two seeds of two data sets, one of which starts from the other."""
    changes = {name: value for name, value in sentiment.items() if name != "data.dataset"}
    pool = {"mnli": {}, "sst2": {"data.batch_size": 8, "init": "mnli"}}
    changes |= {"training.steps": 2, "pool": pool, "num_seeds": 2}
    run = rr.finetune(overrides=changes, run_dir=tmp_path / "pool")
    ours = [run.directory / "sst2" / f"seed-{seed}" / "metrics.json" for seed in (0, 1)]
    values = [json.loads(path.read_text())["eval/sst2/accuracy"] for path in ours]
    assert run.metrics["eval/sst2/accuracy"] == pytest.approx(sum(values) / 2)
    assert run.metrics["eval/sst2/accuracy_best"] == max(values)
    output = json.loads((run.directory / "sst2" / "seed-1" / "hf" / "road_ray.json").read_text())
    assert output["init"] == str(run.directory / "mnli" / "seed-1")
    assert output["columns"] == {"text": "sentence"}
    output = json.loads((run.directory / "mnli" / "seed-1" / "hf" / "road_ray.json").read_text())
    assert list(output["columns"]) == ["text", "text_pair"]


def test_data_sets_without_files_are_left_out(sentiment, caplog, tmp_path):
    config = override(FinetuningsConfig(), sentiment | {"run_dir": tmp_path})
    several = override(config, {"pool": {"sst2": {}, "snli": {}}})
    assert [item.data.dataset for item in finetunings(several)] == ["sst2"]
    assert "no files of snli below the data root: left out" in caplog.text
    with pytest.raises(ConfigError, match="none of its data sets is available: snli"):
        finetunings(override(config, {"pool": {"snli": {}}}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": {"mnli": {}, "rte": {"data.evaluate_on": ["rte", "mnli"]}}}, "both metrics"),
        ({"pool": {"sst2": {"data.evaluate_on": ["sst2", "mnli"]}}}, "mnli is of task nli, sst2"),
        ({"pool": {"rte": {"init": "mnli"}, "mnli": {"init": "sst2"}, "sst2": {}}}, "init = mnli"),
        ({"pool": {"sst2": {}, "mnli": {"seed": 3}}}, r"pool\.seed: it is that of all runs"),
        ({"pool": {"mnli": {}, "sst2": {"init": ["mnli"]}}}, r'init = \["mnli"\]\n'),
        ({"pool": {"mnli": {"data.evaluate_on": "mnli"}}}, r'data.evaluate_on = "mnli"\n'),
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


def test_teachers_are_listed_with_seed_and_figures_whose_mean_is_told(teachers):
    listed = json.loads((teachers.directory / "teachers.json").read_text())["teachers"]
    assert [item["seed"] for item in listed] == [0, 1, 2]
    figures = [item["metrics"]["eval/sst2/accuracy"] for item in listed]
    assert teachers.metrics["eval/sst2/accuracy"] == pytest.approx(sum(figures) / 3)
    assert "eval/sst2/accuracy_deviation" in teachers.metrics


def test_teachers_of_folds_have_not_seen_theirs(folded, sentiment):
    listing = json.loads((folded.directory / "teachers.json").read_text())
    assert listing["num_folds"] == 2
    assert [(item["fold"], item["seed"]) for item in listing["teachers"]] == [
        *[(0, 0), (0, 1)],
        *[(1, 0), (1, 1)],
    ]
    record = folded.directory / "fold-1" / "teacher-0" / "config.resolved.yaml"
    config = load(FinetuneConfig, path=record)
    learnt = prepare(config, Worker.alone()).splits["sst2"].examples
    assert len(learnt) > 0
    assert {fold_of(example, 2) for example in learnt} == {0}


def test_each_generation_learns_from_the_one_before(teachers, sentiment, tmp_path):
    listed = {"teachers": teachers.directory / "teachers.json", "host": "process"}
    keys = sentiment | {"training.keep_checkpoints_at_end": 1}
    run = rr.distill(overrides=keys, run_dir=tmp_path / "chain", generations=3, **listed)
    places = [run.directory / f"generation-{number}" for number in (1, 2, 3)]
    manifests = [json.loads((place / "teachers.json").read_text()) for place in places]
    names = [[t["directory"] for t in manifest["teachers"]] for manifest in manifests]
    assert names[0] == [str(teachers.directory / f"teacher-{n}" / "hf") for n in range(3)]
    assert names[1:] == [[str(place / "hf")] for place in places[:2]]
    records = [json.loads((place / "hf" / "road_ray.json").read_text()) for place in places[:2]]
    assert [record["weighting"]["rule"] for record in records] == ["correctness", "mean"]
    last = places[2]
    figures = json.loads((last / "metrics.json").read_text())
    assert {name: run.metrics[name] for name in figures} == figures
    assert "generation-1/eval/sst2/accuracy" in run.metrics
    assert "eval/sst2/ensemble_accuracy" in run.metrics
    assert weights(run) == weights(last)
    listed |= {"teachers": run.directory / "teachers.json", "num_teachers": 3}
    student = rr.distill(overrides=sentiment, run_dir=tmp_path / "of-the-ensemble", **listed)
    assert "eval/sst2/accuracy" in student.metrics
