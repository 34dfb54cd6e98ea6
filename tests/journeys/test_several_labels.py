"""Texts with any number of labels go the whole way: files, training, figures, predictions."""

import csv
import json
import random

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import f1_score, log_loss
from transformers import AutoConfig

import road_ray as rr
from tests.row_files import write_rows
from tests.runs import plain_logits

WORDS = {"joy": ("fine", "bright"), "anger": ("dull", "poor"), "fear": ("slow", "dark")}


def rows(number, seed):
    drawn = random.Random(seed)
    made = []
    for index in range(number):
        labels = [label for label in WORDS if drawn.random() < 0.4]
        words = [drawn.choice(WORDS[label]) for label in labels] or ["plain"]
        made.append({"text": f"The {' and '.join(words)} film {index}.", "labels": labels})
    return made


@pytest.fixture(scope="module")
def overrides(sentiment, tmp_path_factory):
    place = tmp_path_factory.mktemp("moods")
    write_rows(place / "train.jsonl", rows(64, 1))
    write_rows(place / "dev.jsonl", rows(32, 2))
    own = {"kind": "multi", "text": "text", "label": "labels", "labels": list(WORDS)}
    own |= {"train": "train.jsonl", "dev": "dev.jsonl"}
    chosen = {"data.root": str(place), "data.sets": {"moods": own}, "data.dataset": "moods"}
    return sentiment | chosen | {"training.steps": 30, "run_dir": str(place / "run")}


@pytest.fixture(scope="module")
def trained(overrides):
    return rr.finetune(overrides=overrides)


def test_figures_thresholds_and_predictions(trained):
    dev = rows(32, 2)
    model = rr.load(str(trained.directory))
    predicted = model([row["text"] for row in dev])
    shares = np.array([list(row["scores"].values()) for row in predicted])
    config = AutoConfig.from_pretrained(trained.hf_dir)
    assert config.problem_type == "multi_label_classification"
    assert list(config.id2label.values()) == list(WORDS)
    plain = expit(plain_logits(trained.hf_dir, [row["text"] for row in dev]).numpy())
    np.testing.assert_allclose(shares, plain, rtol=0, atol=1e-5)
    gold = np.array([[label in row["labels"] for label in WORDS] for row in dev])
    figures = {name.removeprefix("eval/moods/"): x for name, x in trained.metrics.items()}
    expected = 100 * f1_score(gold, plain > 0.5, average="micro", zero_division=0)
    assert figures["micro_f1"] == pytest.approx(expected)
    thresholds = model.threshold
    assert set(thresholds) == set(WORDS)
    above = plain > np.array([thresholds[label] for label in WORDS])
    assert [row["labels"] for row in predicted] == [
        [label for label, has in zip(WORDS, row, strict=True) if has] for row in above
    ]
    tuned = 100 * f1_score(gold, above, average="macro", zero_division=0)
    assert figures["at_threshold_macro_f1"] == pytest.approx(tuned)
    written = json.loads((trained.directory / "predictions/moods/predictions.json").read_text())
    assert list(written.values()) == [row["labels"] for row in predicted]


@pytest.fixture(scope="module")
def student(overrides, trained, tmp_path_factory):
    place = tmp_path_factory.mktemp("student")
    write_rows(place / "more.jsonl", [{"text": row["text"]} for row in rows(16, 3)])
    others = {"seed": 2, "data.class_weights": "balanced", "data.label_smoothing": 0.1}
    second = rr.finetune(overrides=overrides | others | {"run_dir": str(place / "second")})
    chosen = {"run_dir": str(place / "student"), "weighting.rule": "correctness"}
    chosen |= {"data.unlabelled": [str(place / "more.jsonl")], "training.steps": 6}
    chosen |= {"calibrate": True, "distillation.host": "process"}
    teachers = [str(trained.directory), str(second.directory)]
    return rr.distill(overrides=overrides | chosen | {"distillation.teachers": teachers})


def test_a_student_of_two_teachers_with_unlabelled_rows(student):
    assert 0 <= student.metrics["eval/moods/micro_f1"] <= 100
    assert "teachers/right_2" in (student.directory / "metrics.jsonl").read_text()
    assert set(rr.load(student.hf_dir).threshold) == set(WORDS)
    card = (student.hf_dir / "README.md").read_text()
    assert "have a threshold of each label" in card
    assert "logits.sigmoid()" in card


def test_labels_share_a_temperature_and_thresholds_are_of_calibrated_probabilities(student):
    dev, record = rows(32, 2), json.loads((student.hf_dir / "road_ray.json").read_text())
    texts = [row["text"] for row in dev]
    gold = np.array([[label in row["labels"] for label in WORDS] for row in dev])
    logits = plain_logits(student.hf_dir, texts).numpy()
    nll = [
        log_loss(gold.ravel(), expit(logits / t).ravel())
        for t in record["temperature"] * np.array([1, 0.99, 1.01, 0.7, 1.5])
    ]
    assert nll[0] == min(nll)
    scores = np.array([list(row["scores"].values()) for row in rr.load(student.hf_dir)(texts)])
    np.testing.assert_allclose(scores, expit(logits / record["temperature"]), atol=1e-5)
    limits = np.array([record["label_thresholds"][label] for label in WORDS])
    tuned = 100 * f1_score(gold, scores > limits, average="micro", zero_division=0)
    assert student.metrics["eval/moods/at_threshold_micro_f1"] == pytest.approx(tuned)
    bins = np.digitize(scores.ravel(), np.arange(1, 15) / 15)
    gaps = [(scores - gold).ravel()[bins == b].sum() for b in range(15)]
    error = 100 * np.abs(gaps).sum() / gold.size
    assert student.metrics["eval/moods/ece_calibrated"] == pytest.approx(error, abs=0.01)


def test_evaluate_predict_and_onnx_agree(road, student, tmp_path):
    dev = write_rows(tmp_path / "dev.jsonl", rows(32, 2))
    done = road(
        "evaluate", str(student.directory), str(dev), "--json", f"run_dir={tmp_path}/own"
    ).good()
    judged = json.loads(done.out)["metrics"]
    assert judged.items() <= student.metrics.items()
    assert "eval/moods/at_threshold_micro_f1" in judged
    onnx = tmp_path / "onnx"
    assert road("export", str(student.directory), "--output", str(onnx)).code == 0
    predicted = {}
    for name, model in {"plain": student.directory, "onnx": onnx}.items():
        output = tmp_path / f"{name}.jsonl"
        done = road("predict", str(model), str(dev), "--output", str(output)).good()
        predicted[name] = [json.loads(line) for line in output.read_text().splitlines()]
    for plain, other in zip(predicted["plain"], predicted["onnx"], strict=True):
        assert plain["labels"] == other["labels"]
        assert plain["scores"] == pytest.approx(other["scores"], abs=1e-4)
    assert road("predict", str(onnx), str(dev), "--output", str(tmp_path / "o.csv")).code == 0
    with (tmp_path / "o.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert [json.loads(row["labels"]) for row in cells] == [
        row["labels"] for row in predicted["onnx"]
    ]
    assert float(cells[0]["score_joy"]) == pytest.approx(predicted["onnx"][0]["scores"]["joy"])


def test_a_head_among_others(overrides, sentiment, tmp_path):
    place = overrides["data.root"]
    own = overrides["data.sets"]["moods"]
    own |= {split: f"{place}/{split}.jsonl" for split in ("train", "dev")}
    chosen = {key: value for key, value in sentiment.items() if key != "data.dataset"}
    chosen |= {"data.datasets": ["moods", "sst2"], "data.sets": {"moods": own}}
    run = rr.multitask(overrides=chosen | {"run_dir": str(tmp_path / "run")})
    assert {"eval/moods/micro_f1", "eval/sst2/accuracy"} <= run.metrics.keys()
    moods = rr.load(str(run.directory), head="moods")
    assert set(moods.threshold) == set(moods("The fine film.")["scores"]) == set(WORDS)
    assert "label" in rr.load(str(run.directory), head="sentiment")("The fine film.")
