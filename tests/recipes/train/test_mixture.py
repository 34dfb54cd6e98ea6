"""What a mixture reads and draws; heads, weights and teachers of its data sets."""

import json
from collections import Counter
from dataclasses import replace
from itertools import count, islice
from types import SimpleNamespace

import pytest

import road_ray as rr
from road_ray.config import load
from road_ray.data.load_split import find_dataset
from road_ray.data.model_files import head_for
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.recipes.train.config import MultitaskConfig
from road_ray.recipes.train.find_teachers import find_teachers, locate_teachers
from road_ray.recipes.train.mixture import draw, steps
from road_ray.recipes.train.prepare import build_objective
from road_ray.verbs import configure, preset_config


def test_weights_and_draws_of_a_task_are_those_of_its_data_sets_with_heads_of_their_own():
    chosen = {"data.datasets": ["mnli", "snli", "cola"], "mixing.weights.nli": 0.5}
    chosen |= {"mixing.weights.snli": 2.0, "mixing.sampler": "uniform_task"}
    config = load(MultitaskConfig, overrides=chosen | {"mixing.heads": "dataset"})
    sets = {name: find_dataset(name, config.data)[0] for name in config.data.datasets}
    rows = {n: SimpleNamespace(features=range(10), dataset=x) for n, x in sets.items()}
    model = SimpleNamespace(encoder=None, tasks={})
    objective = build_objective(config, SimpleNamespace(model=model, splits=rows), {})
    assert objective.weights == {"mnli": 0.5, "snli": 2.0, "cola": 1.0}
    drawn = Counter(x for step in range(1000) for x in draw(config.mixing, 0, rows, 1000, step))
    shares = [drawn[name] / (1000 * config.mixing.passes) for name in rows]
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.03)
    chosen |= {"mixing.sampler": "annealed", "mixing.passes": 3, "mixing.replacement": False}
    mixing = load(MultitaskConfig, overrides=chosen).mixing
    assert all({*draw(mixing, 0, rows, 10, step)} == {*rows} for step in range(10))


def test_every_data_set_may_have_its_own_head_and_weight(mix, questions, tmp_path):
    settings = {"data.datasets": ["squad_v2", "mnli", "rte"], "mixing.heads": "dataset"}
    settings |= {"mixing.weights": {"mnli": 0.0}, "mixing.sampler": "size_power"}
    run = rr.multitask(overrides=mix | settings, run_dir=tmp_path / "mix")
    assert {p.name for p in (run.hf_dir / "heads").iterdir()} == {"squad_v2", "mnli", "rte"}
    assert "eval/mnli/accuracy" in run.metrics
    tuned = {"init": str(run.directory), "training.steps": 1, "optimizer.peak_lr": 1e-12}
    tuned |= {"data.evaluate_on": ["squad_v2"]}
    again = rr.finetune(overrides=questions | tuned, run_dir=tmp_path / "tuned")
    for name in ("exact", "f1", "best_f1"):  # the head of its data set was kept
        key = f"eval/squad_v2/{name}"
        assert again.metrics[key] == pytest.approx(run.metrics[key], abs=1e-6)
    judged = {"data.root": mix["data.root"], "init": str(run.directory), "data.datasets": ["rte"]}
    values = rr.evaluate(overrides=judged, run_dir=tmp_path / "judged").metrics
    assert values["eval/rte/accuracy"] == run.metrics["eval/rte/accuracy"]
    # No head answers for another task with its labels unless it is named.
    dev, listed = f"{mix['data.root']}/glue/RTE/dev.tsv", tmp_path / "listed.json"
    other = {"dev": dev, "text": ["sentence1", "sentence2"], "label": "label"}
    other["labels"] = ["entailment", "not_entailment"]
    unseen = judged | {"data.datasets": ["other"], "data.sets": {"other": other}}
    with pytest.raises(rr.errors.CheckpointError, match=r"its heads: .*mnli, rte, squad_v2"):
        rr.evaluate(overrides=unseen, run_dir=tmp_path / "unseen")
    unseen["init"] = str(run.hf_dir / "heads" / "rte")
    figures = rr.evaluate(overrides=unseen, run_dir=tmp_path / "unseen").metrics
    assert figures["eval/other/accuracy"] == values["eval/rte/accuracy"]
    # As a teacher, in a list and for a file it answers with the head of the data set too.
    listed.write_text(json.dumps({"teachers": [{"directory": str(run.directory)}]}))
    for name, changes in (
        ("rte/ensemble_", {"init": str(listed)}),
        ("my_rte/", {"data.file": dev}),
    ):
        again = rr.evaluate(overrides=judged | changes, run_dir=tmp_path / name[:3])
        assert again.metrics[f"eval/{name}accuracy"] == values["eval/rte/accuracy"]
    taught = {"data.dataset": "rte", "data.root": mix["data.root"], "init": str(run.directory)}
    taught |= {"distillation.teachers": [str(run.directory)]}
    (found,) = find_teachers(configure("distill", overrides=taught)).values()
    assert [e["directory"] for e in found.models] == [str(run.hf_dir / "heads" / "rte")]
    with rr.Ensemble([run.directory], task="rte", host="process") as ensemble:
        assert ensemble.inner.teachers[0].directory == run.hf_dir / "heads" / "rte"


def test_a_threshold_is_used_on_a_set_that_is_named_before_its_own(mix, tmp_path):
    settings = {"data.datasets": ["squad_v1", "squad_v2"], "training.steps": 1}
    figures = rr.multitask(overrides=mix | settings, run_dir=tmp_path).metrics
    assert figures["eval/squad_v1/threshold"] == figures["eval/squad_v2/threshold"]


def test_the_head_that_learnt_a_data_set_comes_before_one_of_its_tasks_name(tmp_path):
    for name in ("reviews", "shop"):
        (tmp_path / "heads" / name).mkdir(parents=True)
        (tmp_path / "heads" / name / "config.json").write_text("{}")
        record = tmp_path / "heads" / name / "road_ray.json"
        record.write_text(json.dumps({"head_datasets": [name]}))
    task = Task("reviews", Classify(("bad", "good")))
    found = [head_for(tmp_path, task, name) for name in ("reviews", "shop", "new")]
    assert [head and head.name for head in found] == ["reviews", "shop", "reviews"]
    assert head_for(tmp_path, replace(task, name="mood"), "my_shop") == tmp_path / "heads" / "shop"


@pytest.mark.parametrize("start", [0, 2])
def test_every_batch_knows_how_much_of_the_training_is_done(start):
    streams = {"a": lambda start: ({"number": n} for n in count(start))}
    for total in (None, 4):
        made = islice(steps(streams, lambda step: ["a", "a"], total, start), 4 - start)
        batches = [batch for passes in made for batch in passes]
        assert [batch["number"] for batch in batches] == list(range(2 * start, 8))
        done = [batch.get("fraction") for batch in batches]
        assert done == [None if total is None else n // 2 / 4 for n in range(2 * start, 8)]


def test_roads_preset_forgets_no_data_set():
    config = preset_config("road_with_kd")
    assert config.distillation.temperature > 3
    with pytest.raises(rr.errors.ConfigError, match="names none for triviaqa, natural_questions"):
        locate_teachers(config)
