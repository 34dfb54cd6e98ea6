"""Temperature, calibration error and coverage, each against a calculation of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from road_ray.evaluation.calibration import (
    calibration,
    calibration_metrics,
    coverage,
    fit_temperature,
    probabilities,
)


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


def test_a_bin_of_two_rows():
    """0.64 and 0.66 fall into the bin from 9/15; both right: |0.65 - 1| of all rows."""
    found = calibration(np.array([0.64, 0.66]), np.array([True, True]))
    assert found == {"ece": 35.0, "bins": [[0.65, 1.0, 2]]}


def test_coverage_answers_the_surest_rows_first():
    confidence = np.array([0.9, 0.6, 0.8, 0.6])
    right = np.array([True, False, True, True])
    assert coverage(confidence, right) == [
        [0.6, 100.0, 75.0],  # both rows of 0.6, or none
        [0.8, 50.0, 100.0],
    ]
