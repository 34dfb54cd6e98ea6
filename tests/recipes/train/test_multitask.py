"""Heads, weights and teachers of the data sets of a mixture."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

import road_ray as rr
from road_ray.recipes.train.find_teachers import locate_teachers
from road_ray.verbs import preset_config


@pytest.fixture(scope="session")
def mix(questions) -> dict[str, object]:
    dropped = ("data.dataset", "data.evaluate_on")
    remaining = {key: value for key, value in questions.items() if key not in dropped}
    chosen = {"data.datasets": ["sst2", "squad_v2", "mnli"], "data.batch_size": 4}
    return remaining | chosen | {"training.steps": 4, "mixing.passes": 2}


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


def test_a_data_set_keeps_its_weight_under_teachers(mix, teachers, tmp_path):
    listed = str(teachers.directory / "teachers.json")
    taught = mix | {"distillation.host": "process", "distillation.teachers.sst2": listed}
    heads = []
    for weight in (1.0, 0.0):
        chosen = taught | {"mixing.weights.sst2": weight}
        run = rr.multitask(overrides=chosen, run_dir=tmp_path / str(weight))
        tensors = load_file(run.hf_dir / "heads" / "sentiment" / "model.safetensors")
        heads.append(tensors["classifier.out_proj.weight"])
    assert not heads[0].equal(heads[1])


def test_roads_preset_forgets_no_data_set():
    config = preset_config("road_with_kd")
    assert config.distillation.temperature > 3
    with pytest.raises(rr.errors.ConfigError, match="names none for triviaqa, natural_questions"):
        locate_teachers(config)
