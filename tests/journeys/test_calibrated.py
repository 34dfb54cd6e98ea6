"""A temperature that is fitted in training is applied by whatever predicts, and by nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy.special import softmax
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import road_ray as rr
from road_ray.errors import ConfigError

TEXTS = ["a fine film", "a dull film", "the film"]


@pytest.fixture(scope="module")
def run(sentiment, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "calibrated"
    return rr.finetune(overrides=sentiment | {"calibrate": True}, run_dir=place)


@pytest.fixture(scope="module")
def temperature(run):
    return json.loads((run.hf_dir / "road_ray.json").read_text())["temperature"]


def test_it_is_in_metrics_record_and_evaluation(run, temperature, tmp_path):
    assert run.metrics["eval/sst2/temperature"] == temperature != 1.0
    assert {"eval/sst2/ece", "eval/sst2/ece_calibrated"} <= run.metrics.keys()
    again = rr.evaluate(init=str(run.directory), run_dir=tmp_path / "again")
    assert again.metrics["eval/sst2/ece_calibrated"] == run.metrics["eval/sst2/ece_calibrated"]
    known = json.loads((tmp_path / "again/predictions/sst2/diagnostics.json").read_text())
    assert known["calibration"]["ece"] == run.metrics["eval/sst2/ece_calibrated"]
    first = known["coverage"][0]
    assert first[1:] == [100.0, pytest.approx(run.metrics["eval/sst2/accuracy"], abs=0.006)]


def test_predictions_have_the_temperature_and_plain_transformers_has_not(run, temperature):
    tokenizer = AutoTokenizer.from_pretrained(run.hf_dir)
    plain = AutoModelForSequenceClassification.from_pretrained(run.hf_dir).eval()
    with torch.inference_mode():
        logits = plain(**tokenizer(TEXTS, return_tensors="pt", padding=True)).logits.numpy()
    said = [list(row["scores"].values()) for row in rr.load(run.hf_dir)(TEXTS)]
    np.testing.assert_allclose(said, softmax(logits / temperature, axis=-1), atol=1e-5)
    assert not np.allclose(said, softmax(logits, axis=-1), atol=1e-5)


def test_rows_below_the_confidence_have_no_label_and_are_counted(run, road, tmp_path, caplog):
    (tmp_path / "rows.txt").write_text("\n".join(TEXTS))
    scores = sorted(row["score"] for row in rr.load(run.hf_dir)(TEXTS))
    limit = (scores[0] + scores[1]) / 2
    command = ["predict", run.directory, tmp_path / "rows.txt", "--min-confidence", limit]
    done = road(*command, "--output", tmp_path / "said.jsonl")
    assert done.code == 0
    assert "1 of 3 rows are below the confidence" in caplog.text
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [row["label"] is None for row in said].count(True) == 1
    assert all((row["label"] is None) == (row["score"] < limit) for row in said)


def test_it_is_refused_where_no_task_has_classes(questions, span_run, tmp_path):
    with pytest.raises(ConfigError, match="calibrate = true: no task has one label"):
        rr.finetune(overrides=questions | {"calibrate": True}, run_dir=tmp_path)
    with pytest.raises(ConfigError, match="gives no single label"):
        rr.load(span_run.hf_dir, min_confidence=0.5)
