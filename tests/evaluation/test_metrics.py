"""Metrics against hand-computed values."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest

from road_ray.errors import ConfigError, DataError
from road_ray.evaluation.metrics import known_metrics, label_balance, score
from road_ray.evaluation.seed_statistics import summary


def test_classification_scores_by_hand() -> None:
    predicted, gold = [1, 1, 1, 0, 0], [1, 1, 0, 1, 0]  # 2 hits, 1 false alarm, 1 miss, 1 quiet
    scores = score(("accuracy", "f1", "matthews"), predicted, gold)
    assert scores == pytest.approx(
        {"accuracy": 60.0, "f1": 100 * 4 / 6, "matthews": 100 * (2 * 1 - 1 * 1) / 6}
    )


def test_correlations_by_hand() -> None:
    scores = score(("pearson", "spearman"), [1.0, 2.0, 3.0], [1.0, 2.0, 6.0])
    # Deviations (-1, 0, 1) and (-2, -1, 3): 5 / sqrt(2 * 14); ranks are equal.
    assert scores == pytest.approx({"pearson": 100 * 5 / math.sqrt(28), "spearman": 100.0})


@pytest.mark.parametrize("name", known_metrics())
def test_a_perfect_prediction_scores_100(name: str) -> None:
    gold = np.array([0, 1, 1, 0])
    assert score((name,), gold, gold) == pytest.approx({name: 100.0})


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_a_constant_prediction_scores_0_and_says_so(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert score((name,), [1, 1, 1], [0, 1, 1]) == {name: 0.0}
    assert f"{name}: all predicted" in caplog.text


def test_f1_counts_class_1_only() -> None:
    assert score(("f1",), [0, 0], [0, 0]) == {"f1": 0.0}
    assert score(("f1",), [1, 2, 0], [1, 0, 2]) == {"f1": 100.0}


def test_of_three_labels_f1_is_named_or_the_mean() -> None:
    predicted, gold, labels = [0, 1, 2, 2, 1], [0, 2, 2, 1, 1], ("bad", "so_so", "good")
    # F1 by hand: 1 for bad, 1/2 for so_so (one hit, one miss, one false alarm), 1/2 for good.
    named = score(("f1_of_bad", "f1_of_good", "macro_f1"), predicted, gold, labels)
    assert named == pytest.approx(
        {"f1_of_bad": 100.0, "f1_of_good": 50.0, "macro_f1": 100 * (1 + 0.5 + 0.5) / 3}
    )
    with pytest.raises(ConfigError, match=r"'f1' of 3 labels.*\n.*macro_f1.*f1_of_so_so"):
        score(("f1",), predicted, gold, labels)
    assert score(("f1",), [1, 0], [1, 1], ("no", "yes")) == pytest.approx({"f1": 200 / 3})


def test_a_model_of_one_label_is_seen_beside_the_majority() -> None:
    balance = label_balance([0] * 30, [0] * 29 + [1])
    assert balance == {"majority_accuracy": pytest.approx(100 * 29 / 30), "predicted_labels": 1.0}
    assert label_balance([0, 2, 1], [0, 1, 1])["predicted_labels"] == 3.0


def test_an_unknown_metric_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'accuracy'"):
        score(("acuracy",), [1], [1])


@pytest.mark.parametrize(
    ("predicted", "gold"), [([1, 0], [1]), ([], []), ([1.0, math.nan], [1.0, 2.0])]
)
def test_bad_values_are_refused(predicted: list[float], gold: list[float]) -> None:
    with pytest.raises(DataError, match="scores: "):
        score(("accuracy",), predicted, gold)


def test_summary_by_hand() -> None:
    result = summary([1.0, 2.0, 3.0, 6.0])
    assert (result.count, result.mean) == (4, 3.0)
    assert result.deviation == pytest.approx(math.sqrt(14 / 3))
    assert summary([5.0]).deviation is None
