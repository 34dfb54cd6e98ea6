"""Figures of predictions come from ``diagnostics.json``."""

from __future__ import annotations

import json

import pytest

from road_ray.reporting.pages.page import Figures, Page, Prose, Section, render
from road_ray.reporting.pages.run_page import label_table, prediction_figures
from road_ray.reporting.records.run_record import RunRecord

CLASSES = {
    "rows": 10,
    "labels": ["no", "<script>"],
    "confusion": [[4, 1], [2, 3]],
    "calibration": {"ece": 12.5, "bins": [[0.6, 0.5, 4], [0.9, 0.8, 6]]},
    "coverage": [[0.5, 100.0, 70.0], [0.9, 40.0, 100.0]],
}
SPANS = {
    "rows": 4,
    "threshold": 0.5,
    "thresholds": [[-1.0, 50.0, 50.0, 0.0, 100.0], [0.5, 75.0, 80.0, 60.0, 90.0]],
}


@pytest.fixture
def run(tmp_path):
    def made(**known):
        for name, content in known.items():
            (tmp_path / "predictions" / name).mkdir(parents=True)
            path = tmp_path / "predictions" / name / "diagnostics.json"
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return RunRecord(tmp_path)

    return made


def test_classes_have_a_confusion_matrix_and_a_reliability_diagram(run):
    figures, matrix = prediction_figures(run(sst2=CLASSES))
    reliability, coverage = figures.figures
    assert reliability.title == "sst2: reliability, ECE 12.5"
    assert reliability.axes.lines[1].get_xydata().tolist() == [[60.0, 50.0], [90.0, 80.0]]
    assert coverage.axes.lines[0].get_xydata().tolist() == [[100.0, 70.0], [40.0, 100.0]]
    html = render(Page("t", sections=[Section("s", [figures, matrix])]))
    assert html.count("<script>") == 1
    assert html.count("<svg") == 2


def test_spans_have_their_scores_by_threshold_with_the_one_in_use_marked(run):
    (figures,) = prediction_figures(run(squad_v2=SPANS))
    (chart,) = figures.figures
    *lines, exact, f1 = chart.axes.lines
    assert [line.get_label() for line in lines] == ["EM", "F1", "EM, with answer", "EM, without"]
    dots = [dot.get_xydata()[0].tolist() for dot in (exact, f1)]
    assert dots == [[0.5, 75.0], [0.5, 80.0]]


@pytest.mark.parametrize(
    "damaged",
    [
        *("", "[]", '{"labels": 5, "confusion": [[1]]}', '{"calibration": {"ece": 1}, "rows": 2}'),
        '{"labels": ["a"], "confusion": [[1]], "calibration": {"ece": 1}, "rows": 2}',
    ],
)
def test_a_damaged_file_is_named_and_the_rest_is_shown(run, damaged):
    figures, prose, *_ = prediction_figures(run(a=damaged, sst2=CLASSES))
    assert isinstance(figures, Figures)
    assert [plot.title.split(":")[0] for plot in figures.figures] == ["sst2"] * 2
    assert isinstance(prose, Prose)
    assert prose.lines[0].startswith("a: no plots")


def test_each_label_has_precision_recall_and_f1_beside_the_majority_baseline():
    table = label_table("sst2", ["negative", "positive"], [[4, 1], [2, 3]])
    assert [[cell.text for cell in row] for row in table.cells] == [
        ["negative", "5", "6", "66.67", "80.00", "72.73", "4", "1"],  # 4/6, 4/5, 8/11
        ["positive", "5", "4", "75.00", "60.00", "66.67", "2", "3"],  # 3/4, 3/5, 6/9
    ]
    assert table.names[-2:] == ["as negative", "as positive"]
    assert table.note == "Accuracy 70.00; always negative: 50.00."


def test_a_model_that_predicts_one_label_is_said_to():
    table = label_table("cola", ["bad", "good"], [[0, 1], [0, 29]])
    assert table.rows[0][3] is None  # precision of a label that is never predicted
    assert table.note == (
        "Accuracy 96.67; always good: 96.67. The model predicts good for every row."
    )
