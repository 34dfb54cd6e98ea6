"""Parts of a user's own train in this process, in a worker, in a trial and in actors; one that a
worker cannot import is told before the first step.
"""

import csv
import json
import sys
from pathlib import Path

import pytest

import road_ray as rr
from road_ray.errors import ConfigError, InterruptedRunError
from road_ray.recipes.export import export
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.docs.blocks import ROOT

READER = """
import os

if os.environ.get("RAY_JOB_ID") or "default_worker" in " ".join(__import__("sys").argv):
    raise OSError("this package is not on the worker")


def read(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        label, _, text = line.partition("|")
        yield f"{path}:{number}", {"text": text, "label": label}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory whose modules are found, and the example package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    parts = ROOT / "examples" / "extension"
    (tmp_path / "my_road_parts.py").write_text((parts / "my_road_parts.py").read_text("utf-8"))
    yield tmp_path
    for name in ("my_road_parts", "only_here"):
        sys.modules.pop(name, None)


@pytest.fixture
def settings(sentiment, place):
    """A head of one's own on fastText's lines, with accuracy and kappa, tracked in a CSV file."""
    parts = ROOT / "examples" / "extension"
    files = {split: str(parts / f"reviews-{split}.txt") for split in ("train", "dev")}
    own = {"layout": "my_road_parts:fasttext", "text": "text", "labels": ["unhappy", "happy"]}
    own |= {"metrics": ["accuracy", "my_road_parts:kappa"], "head": "my_road_parts:MeanPooling"}
    changes = {"data.dataset": "reviews", "data.evaluate_on": []}
    changes |= {"data.sets": {"reviews": files | own}}
    return sentiment | changes | {"tracking.custom": "my_road_parts:csv_tracker"}


def check(run):
    kappa, accuracy = (run.metrics[f"eval/reviews/{name}"] for name in ("kappa", "accuracy"))
    assert kappa <= accuracy <= 100
    with (run.directory / "curves.csv").open() as file:
        tracked = {(row[1], row[2]): row[3] for row in csv.reader(file)}
    rows = read_rows(run.directory / "metrics.jsonl")
    assert float(tracked["2", "train/reviews"]) == rows[0]["train/reviews"] or rows[0]["step"] != 2
    return accuracy


def test_a_head_of_ones_own_is_predicted_with_evaluated_taught_by_and_exported(
    settings, place, caplog
):
    on_dev = {"calibrate": True, "run_dir": str(place / "run")}
    run = rr.finetune(overrides=settings | on_dev)
    check(run)
    assert "only road_ray reads own_head.safetensors" in caplog.text
    record = json.loads((run.hf_dir / "road_ray.json").read_text())
    assert record["head"] == "my_road_parts:MeanPooling"
    assert "`my_road_parts:MeanPooling`, and only where" in (run.hf_dir / "README.md").read_text()
    dev = Path(settings["data.sets"]["reviews"]["dev"])
    lines = [line.partition(" ") for line in dev.read_text().splitlines()]
    texts, labels = ([line[at] for line in lines] for at in (2, 0))
    said, onnx = (rr.load(model)(texts) for model in (run.hf_dir, export(str(run.hf_dir))[0]))
    right = sum(row["label"] == label[9:] for row, label in zip(said, labels, strict=True))
    assert 100 * right / len(said) == pytest.approx(run.metrics["eval/reviews/accuracy"])
    for one, other in zip(said, onnx, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-4)
    again = rr.evaluate(
        init=str(run.hf_dir), overrides={"data.file": str(dev)}, run_dir=place / "again"
    )
    for name in ("eval/reviews/accuracy", "eval/reviews/kappa"):
        assert again.metrics[name] == run.metrics[name]
    further = rr.finetune(overrides=settings | {"init": str(run.directory)}, run_dir=place / "more")
    (event,) = (
        row for row in read_rows(further.directory / "events.jsonl") if row["kind"] == "initialized"
    )
    assert event["kept"] == ["reviews"]

    own = {**settings["data.sets"]["reviews"], "head": None}
    changes = settings | {"data.sets": {"reviews": own}}
    teachers = [
        str(run.directory),
        str(rr.finetune(overrides=changes, run_dir=place / "plain").hf_dir),
    ]
    changes |= {"distillation.host": "process"}
    student = rr.distill(overrides=changes, teachers=teachers, run_dir=place / "student")
    assert not (student.hf_dir / "own_head.safetensors").exists()
    check(student)


def test_a_stopped_run_with_a_head_of_ones_own_goes_on_to_the_same_bytes(settings, place):
    straight = rr.finetune(overrides=settings, run_dir=place / "straight")
    context = rr.RunContext(on_row=lambda step, total, row: step == 3 and context.stop.set())
    with pytest.raises(InterruptedRunError):
        rr.finetune(overrides=settings, run_dir=place / "stopped", context=context)
    resumed = rr.finetune(overrides=settings, run_dir=place / "stopped")
    for name in ("model", "own_head"):
        files = [run.hf_dir / f"{name}.safetensors" for run in (straight, resumed)]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"head": "my_road_parts:no"},
            "(?s)reviews.head = my_road_parts:no.*tried: from",
        ),
        ({"task": "sentiment", "metrics": ["accuracy"]}, r"head: my_.*\n  task sentiment has kind"),
        ({"kind": "tag", "metrics": None, "layout": None}, "kind tag has none of your own"),
    ],
)
def test_a_head_that_cannot_be_is_told_before_the_first_step(settings, place, changes, problem):
    own = {"reviews": settings["data.sets"]["reviews"] | changes}
    with pytest.raises(ConfigError, match=problem):
        rr.finetune(overrides=settings | {"data.sets": own}, run_dir=place / "run")
    assert not (place / "run" / "metrics.jsonl").exists()


def test_an_objective_is_named_by_its_module(pretraining, tmp_path):
    named = {"objective.name": "road_ray.objectives.pretraining.mlm:MaskedLanguageModel"}
    run = rr.pretrain(overrides=pretraining | named, run_dir=tmp_path / "run")
    plain = rr.pretrain(overrides=pretraining | {"objective.name": "mlm"}, run_dir=tmp_path / "mlm")
    assert run.metrics["train/mlm"] == plain.metrics["train/mlm"]
    named["objective.options.softness"] = 2.0
    with pytest.raises(ConfigError, match="has no option softness"):
        rr.pretrain(overrides=pretraining | named, run_dir=tmp_path / "refused")


@pytest.mark.ray
def test_in_a_worker_a_trial_and_beside_actors(settings, place, cluster):
    run = rr.finetune(overrides=settings, workers=1, run_dir=place / "run")
    check(run)
    overrides = {key: settings[key] for key in settings.keys() - {"console", "optimizer.peak_lr"}}
    trials = {"verb": "finetune", "metric": "eval/reviews/kappa", "overrides": overrides}
    trials |= {"trials": 1, "scheduler": "none"}
    trials |= {"space": {"optimizer.peak_lr": {"choice": [0.01]}}}
    (place / "sweep.yaml").write_text(json.dumps(trials, default=str))
    assert rr.sweep(place / "sweep.yaml", ["max_concurrent=1", "console=quiet"]).best
    # The actors of this cluster know the modules below the directory that it was started in.
    sets, own = settings["data.sets"], {"head": "examples.extension.my_road_parts:MeanPooling"}
    changes = {"data.sets": {"reviews": sets["reviews"] | own}}
    run = rr.finetune(overrides=settings | changes, run_dir=place / "teacher")
    rule = {"weighting.rule": "my_road_parts:agreement", "distillation.resources": {"CPU": 0.3}}
    teachers = [str(run.directory)] * 2
    student = rr.distill(
        overrides=settings | rule, teachers=teachers, host="actors", run_dir=place / "student"
    )
    check(student)


@pytest.mark.ray
def test_what_a_worker_cannot_import_is_told_before_the_first_step(settings, place, cluster):
    (place / "only_here.py").write_text(READER)
    (place / "rows.txt").write_text("happy|Well done\nunhappy|Never again\n" * 8)
    own = {"train": str(place / "rows.txt"), "dev": str(place / "rows.txt"), "text": "text"}
    own |= {"layout": "only_here:read", "labels": ["unhappy", "happy"]}
    changes = {"data.sets": {"reviews": own}, "tracking.custom": None}
    with pytest.raises(ConfigError, match=r"(?s)layout = only_here:read.*not on the worker.*tried"):
        rr.finetune(overrides=settings | changes, workers=1, run_dir=place / "run")
    assert not (place / "run" / "metrics.jsonl").exists()
