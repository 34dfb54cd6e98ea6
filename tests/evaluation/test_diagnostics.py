"""Details of evaluations: confusion matrix, calibration, scores by threshold."""

from __future__ import annotations

import json

import numpy as np
import pytest

from road_ray.data.examples import Answer, SpanExample
from road_ray.evaluation import squad
from road_ray.evaluation.calibration import class_diagnostics
from road_ray.evaluation.spans import SpanPrediction
from road_ray.evaluation.squad import span_diagnostics


def test_rows_of_the_confusion_matrix_are_labels():
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]], np.float32)
    result = class_diagnostics(logits, np.array([0, 0, 1]), ["no", "yes"])
    assert (result["rows"], result["labels"]) == (3, ["no", "yes"])
    assert result["confusion"] == [[1, 1], [0, 1]]
    # Every row is sure by e^2 / (1 + e^2) = 0.8808, and two of three are right.
    assert result["calibration"]["bins"] == [[0.8808, 0.6667, 3]]
    json.dumps(result, allow_nan=False)


def example(name, *golds):
    return SpanExample(name, "q", "a b c", tuple(Answer(gold, 0) for gold in golds), "here")


def test_scores_by_threshold_are_those_of_the_official_script():
    examples = [example("1", "a b"), example("2"), example("3", "c"), example("4")]
    texts, odds = ["a", "b", "c", "a"], [-2.0, 1.5, 0.5, -1.0]
    predictions = [
        SpanPrediction(one.id, text, 1.0, odd, ())
        for one, text, odd in zip(examples, texts, odds, strict=True)
    ]
    result = span_diagnostics(examples, predictions, 0.0)
    assert (result["rows"], result["threshold"]) == (4, 0.0)
    answers = dict(zip("1234", texts, strict=True))
    by_id = dict(zip("1234", odds, strict=True))
    for place, exact, f1, has, none in result["thresholds"]:
        official = squad.evaluate(examples, answers, by_id, place)
        assert exact == pytest.approx(official["exact"], abs=1e-3)
        assert f1 == pytest.approx(official["f1"], abs=1e-3)
        assert has == pytest.approx(official["HasAns_exact"], abs=1e-3)
        assert none == pytest.approx(official["NoAns_exact"], abs=1e-3)
    assert 0.0 in [row[0] for row in result["thresholds"]]
