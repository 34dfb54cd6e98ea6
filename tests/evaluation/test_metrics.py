"""Metrics of classes, numbers, several labels and tags: against hand-computed values and
scikit-learn.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_recall_curve

from road_ray.data.catalog import dataset
from road_ray.data.examples import Features, TagExample
from road_ray.data.load_split import Split
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.errors import DataError
from road_ray.evaluation.evaluate_split import evaluate_logits
from road_ray.evaluation.metrics import (
    best_thresholds,
    calibrated,
    class_diagnostics,
    coverage,
    entity_scores,
    fit_temperature,
    label_balance,
    label_set_scores,
    predicted_sets,
    predicted_tags,
    probabilities,
    score,
    table_of_labels,
    word_logits,
)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        # 2 hits, 1 false alarm, 1 miss, 1 quiet
        ([1, 1, 1, 0, 0], [1, 1, 0, 1, 0], {"accuracy": 60, "f1": 400 / 6, "matthews": 100 / 6}),
        # Deviations (-1, 0, 1) and (-2, -1, 3): 5 / sqrt(2 * 14); ranks are equal.
        ([1, 2, 3], [1, 2, 6], {"pearson": 100 * 5 / math.sqrt(28), "spearman": 100}),
        ([0, 0], [0, 0], {"f1": 0}),  # that of class 1 alone
        ([1, 2, 0], [1, 0, 2], {"f1": 100}),
    ],
)
def test_scores_of_one_value_a_row_by_hand(predicted, gold, expected):
    assert score(tuple(expected), predicted, gold) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_a_constant_prediction_scores_0_and_says_so(name, caplog):
    assert score((name,), [1, 1, 1], [0, 1, 1]) == {name: 0.0}
    assert f"{name}: all predicted" in caplog.text


def test_of_three_labels_f1_is_named_or_the_mean():
    predicted, gold, labels = [0, 1, 2, 2, 1], [0, 2, 2, 1, 1], ("bad", "so_so", "good")
    # F1 by hand: 1 for bad, 1/2 for so_so (one hit, one miss, one false alarm), 1/2 for good.
    named = score(("f1_of_bad", "f1_of_good", "macro_f1"), predicted, gold, labels)
    assert named == pytest.approx(
        {"f1_of_bad": 100.0, "f1_of_good": 50.0, "macro_f1": 100 * (1 + 0.5 + 0.5) / 3}
    )
    assert score(("f1",), [1, 0], [1, 1], ("no", "yes")) == pytest.approx({"f1": 200 / 3})


@pytest.mark.parametrize(("predicted", "gold"), [([], []), ([1.0, math.nan], [1.0, 2.0])])
def test_bad_values_are_refused(predicted, gold):
    with pytest.raises(DataError, match="scores: "):
        score(("accuracy",), predicted, gold)


LABELS = ("joy", "anger", "fear")
METRICS = ("micro_f1", "macro_f1", "samples_f1", "subset_accuracy", "lrap", "f1_of_anger")


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
    assert label_balance(predicted, gold) == {
        "majority_accuracy": 50.0,
        "majority_micro_f1": pytest.approx(100 * 2 * 3 / (4 + 4)),
        "predicted_labels": 3.0,
    }
    assert table_of_labels(predicted, gold, LABELS, {"anger": 0.25})["anger"] == {
        "rows": 3, "predicted": 1, "precision": 100.0, "recall": 33.33, "f1": 50.0,
        "threshold": 0.25,
    }  # fmt: skip


def test_a_threshold_has_the_best_f1_that_scikit_learn_finds():
    rng = np.random.default_rng(0)
    gold = (rng.random((200, 3)) < (0.5, 0.2, 0.05)).astype(int)
    probabilities = np.clip(rng.normal(0.3 + 0.3 * gold, 0.2), 0.001, 0.999)
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


TAGS = ("O", "B-PER", "I-PER")


def test_whole_entities_are_counted():
    gold = [["O", "B-PER", "I-PER", "O", "B-ORG"], ["B-LOC", "O"]]
    given = [["O", "B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "B-PER"]]
    result, table = entity_scores(given, gold)
    # 2 of the 4 given and of the 3 gold entities are the same
    assert result["entity_precision"] == pytest.approx(50)
    assert result["entity_recall"] == pytest.approx(200 / 3)
    assert result["entity_f1"] == pytest.approx(400 / 7)
    assert result["accuracy"] == pytest.approx(500 / 7)
    # 3 of the 7 words are O; the tags given are O, B-PER, I-PER and B-LOC
    assert result["majority_accuracy"] == pytest.approx(300 / 7)
    assert result["predicted_labels"] == 4
    assert table["PER"] == {"entities": 1, "precision": 50.0, "recall": 100.0, "f1": 66.67}
    assert table["ORG"] == {"entities": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert list(table) == ["LOC", "ORG", "PER"]
    nothing, table = entity_scores([["O"]], [["O"]])
    assert (nothing["entity_f1"], nothing["accuracy"], table) == (0.0, 100.0, {})


def test_an_entity_cut_short_or_without_its_beginning():
    gold = [["B-PER", "I-PER"]]
    for tags, f1 in ((["B-PER", "O"], 0), (["I-PER", "I-PER"], 100), (["O", "O"], 0)):
        assert entity_scores([tags], gold)[0]["entity_f1"] == f1


def test_words_over_several_rows_get_the_tag_of_their_first_token():
    examples = [TagExample("0", ("x", "y", "z"), None, "f:1")]
    rows = Features(
        dataset="conll2003",
        task="ner",
        tokens=np.zeros(7, np.int32),
        bounds=np.array([0, 4, 7]),
        first_segment=np.array([4, 3], np.int32),
        gold={},
        example=np.array([0, 0], np.int32),
        words=np.array([-1, 0, 1, -1, -1, 2, -1], np.int32),
    )
    logits = [np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], np.eye(3, dtype=np.float32)[[2, 0, 1]]]
    (words,) = word_logits(rows, examples, logits)
    assert predicted_tags(TAGS, words) == ["B-PER", "I-PER", "O"]
    no_word = TagExample("1", (), (), "f:2")
    tagged = [replace(examples[0], tags=("B-PER", "I-PER", "O")), no_word]
    split = Split(dataset("conll2003"), Task("ner", Tag(TAGS)), tagged, rows)
    assert evaluate_logits(split, logits).metrics["entity_f1"] == 100


def rows(scale: float, count: int = 4000):
    """Logits of three classes that are ``scale`` times those that the labels are drawn from."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(count, 3)) * 2
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    gold = np.array([rng.choice(3, p=share) for share in shares])
    return (logits * scale).astype(np.float32), gold


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_temperature_has_the_smallest_loss_and_is_near_the_true_one(scale):
    logits, gold = rows(scale)
    found = fit_temperature(logits, gold)
    z, y = torch.from_numpy(logits).double(), torch.from_numpy(gold)
    log_t = torch.tensor(found, dtype=torch.float64).log().requires_grad_()
    torch.nn.functional.cross_entropy(z / log_t.exp(), y).backward()  # convex in 1 / T
    assert log_t.grad.item() == pytest.approx(0, abs=1e-5)
    assert found == pytest.approx(scale, rel=0.06)


def test_the_error_falls_to_that_of_drawn_labels():
    logits, gold = rows(3.0)
    temperature, figures = calibrated(logits, gold, None, fit=True)
    assert figures["temperature"] == temperature == fit_temperature(logits, gold)
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
    scores = {"rows": 2, "predicted": 1, "precision": 100.0, "recall": 50.0, "f1": 66.67}
    assert result["per_label"]["no"] == scores
    # Every row is sure by e^2 / (1 + e^2) = 0.8808, and two of three are right.
    assert result["calibration"]["bins"] == [[0.8808, 0.6667, 3]]
    json.dumps(result, allow_nan=False)
