"""Teachers are runs of their own, listed with seeds and figures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import road_ray as rr
from road_ray.recipes.distillation.teacher_list import read_teacher_list


def test_three_seeds_are_listed_with_directory_and_figures(teachers):
    listing = json.loads((teachers.directory / "teachers.json").read_text())["teachers"]
    assert [item["seed"] for item in listing] == [0, 1, 2]
    files = [teachers.directory / item["directory"] / "model.safetensors" for item in listing]
    assert len({path.read_bytes() for path in files}) == 3
    figures = [item["metrics"]["eval/sst2/accuracy"] for item in listing]
    assert teachers.metrics["eval/sst2/accuracy"] == pytest.approx(sum(figures) / 3)
    assert "eval/sst2/accuracy_deviation" in teachers.metrics


def test_teachers_may_move_with_their_list(teachers, tmp_path):
    moved = shutil.copytree(teachers.directory, tmp_path / "moved")
    named, folds = read_teacher_list(moved / "teachers.json")
    assert folds == 1
    assert [Path(name) for name in named] == [moved / f"teacher-{n}" / "hf" for n in range(3)]


def test_teachers_of_folds_have_not_seen_theirs(folded, sentiment):
    listing = json.loads((folded.directory / "teachers.json").read_text())
    assert listing["num_folds"] == 2
    assert [(item["fold"], item["seed"]) for item in listing["teachers"]] == [
        *[(0, 0), (0, 1)],
        *[(1, 0), (1, 1)],
    ]
    from road_ray.config import load
    from road_ray.data.folds import fold_of
    from road_ray.recipes.finetuning.config import FinetuneConfig
    from road_ray.recipes.train.prepare import prepare
    from road_ray.training.worker import Worker

    config = load(
        FinetuneConfig, path=folded.directory / "fold-1" / "teacher-0" / "config.resolved.yaml"
    )
    learnt = prepare(config, Worker.alone()).splits["sst2"].examples
    assert len(learnt) > 0
    assert {fold_of(example, 2) for example in learnt} == {0}


@pytest.fixture(scope="module")
def leaking(sentiment, tmp_path_factory):
    """Overrides of a teacher for each of two folds, where the first row is judged too."""
    root = shutil.copytree(sentiment["data.root"], tmp_path_factory.mktemp("world") / "copy")
    (place,) = root.rglob("SST-2")
    first = (place / "train.tsv").read_text().splitlines()[1]
    with (place / "dev.tsv").open("a") as dev:
        dev.write(f"{first}\n")
    settings = {"data.root": str(root), "training.steps": 1}
    return sentiment | settings | {"num_folds": 2, "num_teachers": 1}


OVERLAP = "data/sst2/overlap_with_train"


def test_a_row_that_is_judged_and_seen_outside_one_fold_is_counted_for_both(leaking, tmp_path):
    run = rr.teachers(overrides=leaking, run_dir=tmp_path)
    listing = json.loads((tmp_path / "teachers.json").read_text())["teachers"]
    counts = [item["metrics"][OVERLAP] for item in listing]
    assert abs(counts[0] - counts[1]) == 1
    assert run.metrics[OVERLAP] == sum(counts) / 2
    # A teacher of an earlier version does not have it where it is 0.
    (tmp_path / "metrics.json").unlink()
    path = tmp_path / f"fold-{counts.index(min(counts))}" / "teacher-0" / "metrics.json"
    figures = json.loads(path.read_text())
    del figures[OVERLAP]
    path.write_text(json.dumps(figures))
    path.with_name("MANIFEST.json").unlink()
    again = rr.teachers(overrides=leaking, run_dir=tmp_path)
    assert OVERLAP not in again.metrics
    assert again.metrics["eval/sst2/accuracy"] == run.metrics["eval/sst2/accuracy"]
