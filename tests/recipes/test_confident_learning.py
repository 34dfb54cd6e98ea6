"""Confident learning by hand."""

from __future__ import annotations

import numpy as np
import pytest

from road_ray.recipes.label_errors import find_label_errors, find_label_set_errors


def test_suspected_rows_are_those_off_the_diagonal_of_the_confident_joint():
    probabilities = np.array(
        [
            [0.9, 0.1, 0.0],
            [0.2, 0.8, 0.0],  # labelled 0; 0.8 is at least class 1's threshold of 0.65
            [0.3, 0.7, 0.0],
            [0.4, 0.6, 0.0],
            [0.5, 0.5, 0.0],  # labelled 1; below both thresholds: nobody is confident
        ]
    )
    found = find_label_errors(probabilities, np.array([0, 0, 1, 1, 1]))
    # Thresholds: class 0 (0.9 + 0.2) / 2 = 0.55, class 1 (0.7 + 0.6 + 0.5) / 3 = 0.6, class 2 none.
    assert found.suspected.tolist() == [False, True, False, False, False]
    assert found.suggested[1] == 1
    assert found.self_confidence.tolist() == [0.9, 0.2, 0.7, 0.6, 0.5]
    assert found.margin == pytest.approx([0.8, -0.6, 0.4, 0.2, 0.0])


def test_flipped_labels_of_good_models_are_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=2000)
    logits = rng.normal(size=(2000, 3)) + 4.0 * np.eye(3)[truth]
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    flipped = rng.random(2000) < 0.1
    labels = np.where(flipped, (truth + 1) % 3, truth)
    suspected = find_label_errors(probabilities, labels).suspected
    assert (suspected & flipped).sum() / flipped.sum() > 0.85
    assert (suspected & flipped).sum() / suspected.sum() > 0.9


def test_each_of_several_labels_is_judged_for_itself():
    shares = np.array([[0.9, 0.2], [0.8, 0.1], [0.1, 0.9], [0.95, 0.15]])
    labels = np.array([[1, 0], [1, 0], [0, 1], [0, 0]])
    found = find_label_set_errors(shares, labels)
    # Label 0 is there with 0.85 at least and not there with (0.9 + 0.05) / 2; label 1 is as it is.
    assert found.suspected.tolist() == [False, False, False, True]
    assert found.suggested.tolist() == [[1, 0], [1, 0], [0, 1], [1, 0]]
    assert found.self_confidence == pytest.approx([0.8, 0.8, 0.9, 0.05])
    assert found.margin == pytest.approx([0.6, 0.6, 0.8, -0.9])
