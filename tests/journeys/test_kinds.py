"""Choices go the whole way: files, training, figures, predictions, teachers; questions with the
joint head are judged again.
"""

import json
from dataclasses import replace

import pytest
import torch

import road_ray as rr
from road_ray.errors import ConfigError
from road_ray.inference.load_model import load
from tests.row_files import write_rows


@pytest.fixture(scope="module")
def settings(sentiment, tmp_path_factory):
    """A fine-tuning on questions with five choices each."""
    names = ["question", *"abcde"]
    choices = {letter: f"the {letter}" for letter in "abcde"}
    rows = [{"question": f"where is {n}?", **choices, "label": n % 5} for n in range(8)]
    file = str(write_rows(tmp_path_factory.mktemp("own") / "questions.csv", rows))
    entry = {"kind": "choose", "text": names, "train": file, "dev": file}
    chosen = {"data.sets": {"own": entry}, "data.dataset": "own", "data.batch_size": 4}
    return sentiment | chosen | {"training.steps": 3}


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "choices"
    return rr.finetune(overrides=settings | {"calibrate": True}, run_dir=place)


def test_figures_and_predictions(trained):
    assert 0 <= trained.metrics["eval/own/accuracy"] <= 100
    path = trained.directory / "predictions" / "own" / "predictions.json"
    output = json.loads(path.read_text())
    assert len(output) == 8
    assert set(output.values()) <= set("01234")
    temperature = trained.metrics["eval/own/temperature"]
    row, model = {"question": "where?", "choices": list("abcde")}, load(str(trained.directory))
    plain = torch.tensor(replace(model, record={})(row)["scores"]).log() / temperature
    assert model(row)["scores"] == pytest.approx(plain.softmax(-1).tolist(), abs=1e-5)


def test_a_student_learns_from_it(settings, trained, tmp_path):
    taught = {"distillation.teachers": [str(trained.directory)], "distillation.host": "process"}
    run = rr.distill(overrides=settings | taught, run_dir=tmp_path)
    assert "eval/own/accuracy" in run.metrics


def test_questions_with_the_joint_head_are_learnt_and_judged_again(questions, tmp_path, road):
    joint = questions | {"data.span_head": "joint", "data.max_judged_rows": 12}
    run = rr.finetune(overrides=joint, run_dir=tmp_path / "run")
    tuned = {name: value for name, value in run.metrics.items() if "at_threshold_" in name}
    assert "eval/newsqa/at_threshold_f1" in tuned
    others = ("data.dataset", "data.batch_size", "data.evaluate_on")
    data = {n: v for n, v in joint.items() if n.startswith("data.") and n not in others}
    judged = rr.evaluate(
        overrides=data | {"data.datasets": ["squad_v2", "newsqa"], "init": str(run.directory)},
        run_dir=tmp_path / "judged",
    )
    assert {name: judged.metrics[name] for name in tuned} == pytest.approx(tuned)
    with pytest.raises(ConfigError, match="transformers, which has no class"):
        rr.teachers(overrides=joint, run_dir=tmp_path / "teachers")
