"""A temperature that is fitted in training is applied by whatever predicts, and by nothing else."""

import json

import numpy as np
import pytest
from scipy.special import softmax
from starlette.testclient import TestClient

import road_ray as rr
from road_ray.distributed.serving.api import build_api
from road_ray.distributed.serving.config import ServingConfig
from road_ray.errors import ConfigError
from road_ray.inference.load_model import load
from road_ray.recipes.export import export
from tests.runs import plain_logits

TEXTS = ["a fine film", "a dull film", "the film"]


@pytest.fixture(scope="module")
def run(sentiment, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "calibrated"
    return rr.finetune(overrides=sentiment | {"calibrate": True}, run_dir=place)


@pytest.fixture(scope="module")
def temperature(run):
    return json.loads((run.hf_dir / "road_ray.json").read_text())["temperature"]


def test_it_is_in_metrics_record_card_and_evaluation(run, temperature, tmp_path):
    assert run.metrics["eval/sst2/temperature"] == temperature != 1.0
    assert {"eval/sst2/ece", "eval/sst2/ece_calibrated"} <= run.metrics.keys()
    told = f"the logits divided by {temperature:.4g}, which"  # transformers does not
    assert told in (run.hf_dir / "README.md").read_text()
    again = rr.evaluate(init=str(run.directory), run_dir=tmp_path / "again")
    assert again.metrics["eval/sst2/ece_calibrated"] == run.metrics["eval/sst2/ece_calibrated"]
    known = json.loads((tmp_path / "again/predictions/sst2/diagnostics.json").read_text())
    assert known["calibration"]["ece"] == run.metrics["eval/sst2/ece_calibrated"]
    first = known["coverage"][0]
    assert first[1:] == [100.0, pytest.approx(run.metrics["eval/sst2/accuracy"], abs=0.006)]


def test_predictions_have_the_temperature_and_plain_transformers_has_not(run, temperature):
    logits = plain_logits(run.hf_dir, TEXTS).numpy()
    said = [list(row["scores"].values()) for row in rr.load(run.hf_dir)(TEXTS)]
    np.testing.assert_allclose(said, softmax(logits / temperature, axis=-1), atol=1e-5)
    assert not np.allclose(said, softmax(logits, axis=-1), atol=1e-5)


def test_onnx_the_server_and_the_command_have_it_too_and_leave_rows_below_the_confidence(
    run, road, tmp_path, caplog
):
    plain, onnx = rr.load(run.hf_dir), rr.load(export(str(run.directory), tmp_path / "onnx")[0])
    said = plain(TEXTS)
    for row, other in zip(said, onnx(TEXTS), strict=True):
        assert other["label"] == row["label"]
        assert other["scores"] == pytest.approx(row["scores"], abs=1e-5)
    limit = sorted(row["score"] for row in said)[1]
    config = ServingConfig(model=str(run.hf_dir), min_confidence=limit)
    api = build_api(load(config.model, **config.loading), config, None, "127.0.0.1")
    with TestClient(api, base_url="http://localhost") as client:
        served = client.post("/predict", json=[{"text": text} for text in TEXTS]).json()
    (tmp_path / "rows.txt").write_text("\n".join(TEXTS))
    command = ["predict", run.directory, tmp_path / "rows.txt", "--min-confidence", limit]
    road(*command, "--output", tmp_path / "said.jsonl").good()
    lines = (tmp_path / "said.jsonl").read_text().splitlines()
    assert "1 of 3 rows are below the confidence" in caplog.text
    for answers in (served, [json.loads(line) for line in lines]):
        for row, other in zip(said, answers, strict=True):
            assert other["scores"] == row["scores"]  # also of a row without a label
            assert other["label"] == (row["label"] if row["score"] >= limit else None)


def test_it_is_refused_where_it_cannot_be_fitted(questions, span_run, tmp_path):
    with pytest.raises(ConfigError, match="calibrate = true: no task has classes"):
        rr.finetune(overrides=questions | {"calibrate": True}, run_dir=tmp_path)
    with pytest.raises(ConfigError, match="or name that in data"):
        rr.finetune(calibrate=True, data={"evaluate_on": ["advglue_sst2"]}, run_dir=tmp_path)
    with pytest.raises(ConfigError, match="has no single label"):
        rr.load(span_run.hf_dir, min_confidence=0.5)
