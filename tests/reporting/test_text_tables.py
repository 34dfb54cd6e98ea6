"""Alignment of tables and choice of figures."""

import pytest

from road_ray.evaluation.metrics import entity_scores
from road_ray.reporting.text_tables import aligned, metrics_table


def lines_of(dataset, metrics):
    """The table of the metrics of one data set."""
    return metrics_table(
        {f"eval/{dataset}/{n}": value for n, value in metrics.items()}
    ).splitlines()


def test_numbers_stand_to_the_right_and_text_to_the_left():
    rows = [{"name": "a", "value": 1234.5}, {"name": "long one", "value": 0.0001}]
    assert aligned(rows).splitlines() == [
        "name         value",
        "--------  --------",
        "a         1,234.50",
        "long one  1.00e-04",
    ]


def test_evaluations_come_before_losses_and_counts_are_left_out():
    shown = metrics_table({"eval/a/f1": 50.0, "eval/a/total": 3, "train/loss": 1.0})
    assert "eval/a/f1" in shown
    assert "total" not in shown
    assert "train/loss" not in shown
    assert "train/loss" in metrics_table({"train/loss": 1.0})
    assert "eval/a/odd" in metrics_table({"eval/a/odd": 1.0, "train/loss": 1.0})


def test_the_majority_stands_beside_the_accuracy_with_what_misleads():
    metrics = {
        "eval/cola/accuracy": 96.67,
        "eval/cola/majority_accuracy": 96.67,
        "eval/cola/predicted_labels": 1.0,
        "eval/cola/truncated_rows": 1200.0,
        "eval/cola/truncated_tokens_percent": 8.25,
        "data/cola/truncated_rows": 7.0,
        "data/cola/truncated_tokens_percent": 0.5,
    }
    lines = metrics_table(metrics).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == [
        *("eval/cola/accuracy", "eval/cola/majority_accuracy")
    ]
    assert lines[4:] == [
        "note: cola: the model predicts one label for every row",
        "note: cola: 1,200 rows are truncated, 8.2% of all tokens (data.max_length_tokens)",
        "note: cola: 7 training rows are truncated, 0.5% of all tokens (data.max_length_tokens)",
    ]


def test_of_several_runs_the_majority_is_one_row_with_its_deviation():
    metrics = {"accuracy": 76.7, "kappa": 50.0, "majority_accuracy": 56.7}  # kappa: one's own
    metrics |= {f"{name}_deviation": 0.1 for name in metrics}
    lines = lines_of("films", metrics)
    assert [line.split() for line in lines[2:]] == [
        ["eval/films/accuracy", "76.70", "0.10"],
        ["eval/films/kappa", "50.00", "0.10"],
        ["eval/films/majority_accuracy", "56.70", "0.10"],
    ]


def test_one_tag_for_every_word_misleads():
    scores, _ = entity_scores([["O", "O"], ["O"]], [["O", "B-PER"], ["O"]])
    lines = lines_of("names", scores)
    assert [line.split()[1] for line in lines if "accuracy" in line] == ["66.67", "66.67"]
    assert lines[-1] == "note: names: the model predicts one tag for every word"


@pytest.mark.parametrize(
    ("count", "what"), [(0, "no label for any row"), (1, "only one of the labels")]
)
def test_several_labels_stand_beside_the_most_frequent_one(count, what):
    metrics = {"micro_f1": 50.0, "lrap": 60.0, "at_threshold_micro_f1": 55.0}
    metrics |= {"majority_micro_f1": 40.0, "predicted_labels": float(count)}
    lines = lines_of("moods", metrics)
    shown = ["micro_f1", "at_threshold_micro_f1", "majority_micro_f1"]
    assert [line.split()[0] for line in lines[2:5]] == [f"eval/moods/{name}" for name in shown]
    assert lines[5:] == [f"note: moods: the model predicts {what}"]
