"""Students that teach the next."""

from __future__ import annotations

import json

import pytest

import road_ray as rr
from road_ray.errors import ConfigError


@pytest.fixture
def chain(sentiment, teachers, tmp_path):
    def run(**changes: object) -> rr.Run:
        settings = {"teachers": teachers.directory / "teachers.json", "host": "process"}
        keys = sentiment | {"training.keep_checkpoints_at_end": 1}
        return rr.distill(overrides=keys, run_dir=tmp_path / "chain", **(settings | changes))

    return run


def manifest(run_dir, number: int) -> dict:
    return json.loads((run_dir / f"generation-{number}" / "teachers.json").read_text())


def test_each_generation_learns_from_the_one_before(chain, teachers, sentiment, tmp_path):
    run = chain(generations=3)
    names = [[t["directory"] for t in manifest(run.directory, n)["teachers"]] for n in (1, 2, 3)]
    assert names[0] == [str(teachers.directory / f"teacher-{n}" / "hf") for n in range(3)]
    assert names[1] == [str(run.directory / "generation-1" / "hf")]
    assert names[2] == [str(run.directory / "generation-2" / "hf")]
    last = run.directory / "generation-3"
    records = [
        json.loads((run.directory / f"generation-{n}" / "hf" / "road_ray.json").read_text())
        for n in (1, 2)
    ]
    assert [record["weighting"]["rule"] for record in records] == ["correctness", "mean"]
    figures = json.loads((last / "metrics.json").read_text())
    assert {name: run.metrics[name] for name in figures} == figures
    assert "generation-1/eval/sst2/accuracy" in run.metrics
    assert "eval/sst2/ensemble_accuracy" in run.metrics
    weights = [path / "hf" / "model.safetensors" for path in (run.directory, last)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    student = rr.distill(
        overrides=sentiment,
        teachers=run.directory / "teachers.json",
        num_teachers=3,
        host="process",
        run_dir=tmp_path / "of-the-ensemble",
    )
    assert "eval/sst2/accuracy" in student.metrics


def test_layers_that_the_next_teacher_lacks_are_refused_before_the_first(chain):
    matching = {"matching": {"hidden_weight": 0.5, "layers": [[1, 2]]}}
    with pytest.raises(ConfigError, match=r"matching.layers = \[\[1, 2\]\]"):
        chain(generations=2, **matching)
