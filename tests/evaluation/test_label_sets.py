"""Scores and thresholds of several labels against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    label_ranking_average_precision_score,
    precision_recall_curve,
)

from road_ray.evaluation.metrics import (
    best_thresholds,
    label_set_balance,
    label_set_scores,
    predicted_sets,
    table_of_labels,
)

LABELS = ("joy", "anger", "fear")
METRICS = ("micro_f1", "macro_f1", "samples_f1", "subset_accuracy", "lrap", "f1_of_anger")


def drawn(rows=200):
    rng = np.random.default_rng(0)
    gold = (rng.random((rows, 3)) < (0.5, 0.2, 0.05)).astype(int)
    probabilities = np.clip(rng.normal(0.3 + 0.3 * gold, 0.2), 0.001, 0.999)
    return probabilities, gold


def test_scores_are_those_of_scikit_learn():
    probabilities, gold = drawn()
    predicted = predicted_sets(probabilities, LABELS, None)
    scores = label_set_scores(METRICS, probabilities, predicted, gold, LABELS)
    expected = {
        "micro_f1": f1_score(gold, predicted, average="micro"),
        "macro_f1": f1_score(gold, predicted, average="macro"),
        "samples_f1": f1_score(gold, predicted, average="samples", zero_division=1.0),
        "subset_accuracy": accuracy_score(gold, predicted),
        "lrap": label_ranking_average_precision_score(gold, probabilities),
        "f1_of_anger": f1_score(gold[:, 1], predicted[:, 1]),
    }
    assert scores == pytest.approx({name: 100 * value for name, value in expected.items()})


def test_scores_by_hand():
    gold = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]])
    shares = np.array([[0.9, 0.2, 0.4], [0.1, 0.2, 0.3], [0.1, 0.8, 0.6], [0.6, 0.5, 0.1]])
    predicted = predicted_sets(shares, LABELS, None)
    assert predicted.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]  # 0.5 is no label
    scores = label_set_scores(METRICS, shares, predicted, gold, LABELS)
    assert scores["micro_f1"] == pytest.approx(100 * 2 * 2 / (4 + 4))
    assert scores["samples_f1"] == pytest.approx(100 * (2 / 3 + 1 + 2 / 3 + 0) / 4)
    assert scores["subset_accuracy"] == 25
    # Rows: labels at ranks 1 and 3 of 3; none; rank 1; rank 2.
    assert scores["lrap"] == pytest.approx(100 * ((1 + 2 / 3) / 2 + 1 + 1 + 1 / 2) / 4)
    assert scores["f1_of_anger"] == pytest.approx(100 * 2 / (1 + 3))
    assert label_set_balance(predicted, gold) == {
        "majority_accuracy": 50.0,
        "majority_micro_f1": pytest.approx(100 * 2 * 3 / (4 + 4)),
        "predicted_labels": 3.0,
    }
    assert table_of_labels(predicted, gold, LABELS, {"anger": 0.25})["anger"] == {
        "rows": 3, "predicted": 1, "precision": 100.0, "recall": 33.33, "f1": 50.0,
        "threshold": 0.25,
    }  # fmt: skip


def test_a_threshold_has_the_best_f1_that_scikit_learn_finds():
    probabilities, gold = drawn()
    thresholds = best_thresholds(probabilities, gold, LABELS)
    predicted = predicted_sets(probabilities, LABELS, thresholds)
    for column, label in enumerate(LABELS):
        precision, recall, _ = precision_recall_curve(gold[:, column], probabilities[:, column])
        best = (2 * precision * recall / np.maximum(precision + recall, 1e-12)).max()
        assert f1_score(gold[:, column], predicted[:, column]) == pytest.approx(best)
        assert np.abs(probabilities[:, column] - thresholds[label]).min() > 0  # between two rows


def test_a_half_is_kept_where_nothing_is_gained():
    shares = np.array([[0.7, 0.4, 0.4], [0.2, 0.3, 0.45], [0.1, 0.2, 0.2]])
    gold = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]])
    thresholds = best_thresholds(shares, gold, LABELS)
    assert thresholds == {"joy": 0.5, "anger": 0.5, "fear": pytest.approx(0.3)}
    everywhere = best_thresholds(np.array([[0.4], [0.3]]), np.array([[1], [1]]), ("joy",))
    assert 0 < everywhere["joy"] < 0.3
