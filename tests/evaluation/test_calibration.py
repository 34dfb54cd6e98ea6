"""Temperature, calibration error, coverage and details for pages, each against a calculation of its
own.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from road_ray.data.examples import Answer, SpanExample
from road_ray.evaluation import squad
from road_ray.evaluation.metrics import (
    calibration_metrics,
    class_diagnostics,
    coverage,
    fit_temperature,
    probabilities,
)
from road_ray.evaluation.spans import SpanPrediction
from road_ray.evaluation.squad import span_diagnostics


def rows(scale: float, count: int = 4000):
    """Logits of three classes that are ``scale`` times those that the labels are drawn from."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(count, 3)) * 2
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    gold = np.array([rng.choice(3, p=share) for share in shares])
    return (logits * scale).astype(np.float32), gold


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_temperature_is_that_of_lbfgs_and_near_the_true_one(scale):
    logits, gold = rows(scale)
    found = fit_temperature(logits, gold)
    log_t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_t], max_iter=100, line_search_fn="strong_wolfe")
    z, y = torch.from_numpy(logits).double(), torch.from_numpy(gold)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(z / log_t.exp(), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert found == pytest.approx(log_t.exp().item(), rel=1e-4)
    assert found == pytest.approx(scale, rel=0.06)


def test_the_error_falls_to_that_of_drawn_labels():
    logits, gold = rows(3.0)
    figures = calibration_metrics(logits, gold, fit_temperature(logits, gold))
    assert figures["ece"] > 10
    assert figures["ece_calibrated"] < 2
    confidence, right = probabilities(logits).max(-1), logits.argmax(-1) == gold
    bins = np.digitize(confidence, np.arange(1, 15) / 15)
    gaps = [(confidence - right)[bins == b].sum() for b in range(15)]  # n_b * (mean - accuracy)
    assert figures["ece"] == pytest.approx(100 * np.abs(gaps).sum() / len(gold), abs=0.006)


def test_rows_that_are_all_right_stay_within_bounds():
    logits = np.array([[3.0, 0.0], [0.0, 2.0]])
    assert 0.05 <= fit_temperature(logits, np.array([0, 1])) < 0.1  # where the loss is 0
    assert fit_temperature(logits, np.array([1, 0])) == pytest.approx(20.0, rel=1e-4)


def test_coverage_answers_the_surest_rows_first():
    confidence = np.array([0.9, 0.6, 0.8, 0.6])
    right = np.array([True, False, True, True])
    assert coverage(confidence, right) == [
        [0.6, 100.0, 75.0],  # both rows of 0.6, or none
        [0.8, 50.0, 100.0],
    ]


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
