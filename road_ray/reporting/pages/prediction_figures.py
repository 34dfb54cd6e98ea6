"""Figures of the predictions of a run, from ``predictions/<data set>/diagnostics.json``: scores of
each label, confusion matrix, reliability diagram, scores by no-answer threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from road_ray.errors import RoadError
from road_ray.reporting.pages.page import Block, Figures, Prose, Table, Value
from road_ray.reporting.pages.page import Cell as TableCell
from road_ray.reporting.plots.chart import Axis, Cell, Chart, Dot, Line
from road_ray.reporting.records.run_record import RunRecord
from road_ray.system.json_file import read_json

_MOST_SETS = 6


def prediction_figures(run: RunRecord) -> list[Block]:
    """Return the figures of every data set with predictions, or a sentence for a damaged file."""
    blocks: list[Block] = []
    charts: list[Chart] = []
    paths = sorted((run.directory / "predictions").glob("*/diagnostics.json"))
    for path in paths[:_MOST_SETS]:
        try:
            known = read_json(path)
            charts += _charts(path.parent.name, known)
            if "confusion" in known:
                labels = [str(label) for label in known["labels"]]
                blocks.append(label_table(path.parent.name, labels, known["confusion"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError, RoadError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            blocks.append(Prose([f"{path.parent.name}: no figures: {why}"]))
    if len(paths) > _MOST_SETS:
        blocks.append(Prose([f"The first {_MOST_SETS} of {len(paths)} data sets."]))
    return [Figures(charts), *blocks] if charts else blocks


def _charts(name: str, known: dict[str, Any]) -> Iterator[Chart]:
    if "confusion" in known:
        yield _confusion(name, [str(label) for label in known["labels"]], known["confusion"])
    if "calibration" in known:
        yield _reliability(name, known["calibration"], int(known["rows"]))
    if "thresholds" in known:
        yield _thresholds(name, known["thresholds"], float(known["threshold"]))


def label_table(name: str, labels: list[str], counts: list[list[int]]) -> Table:
    """Return precision, recall and F1 of each label, in percent, from ``counts[gold][predicted]``,
    with the accuracy of always predicting the most frequent label.
    """
    predicted = [sum(column) for column in zip(*counts, strict=True)]
    rows: list[Sequence[Value | TableCell]] = []
    for place, label in enumerate(labels):
        right, gold, chosen = counts[place][place], sum(counts[place]), predicted[place]
        # Precision of a label that is never predicted is undefined, not zero.
        precision = _percent(right, chosen)
        scores = [precision, _percent(right, gold), _percent(2 * right, gold + chosen)]
        rows.append([label, gold, chosen, *scores])
    total, most = sum(predicted), max(range(len(labels)), key=lambda n: sum(counts[n]))
    right = sum(counts[place][place] for place in range(len(labels)))
    note = (
        f"Accuracy {100 * right / max(total, 1):.2f}; always {labels[most]}: "
        f"{100 * sum(counts[most]) / max(total, 1):.2f}."
    )
    if total and len(labels) > 1 and sum(count > 0 for count in predicted) == 1:
        only = labels[max(range(len(labels)), key=lambda n: predicted[n])]
        note += f" The model predicts {only} for every row."
    return Table([name, "rows", "predicted", "precision", "recall", "F1"], rows, note=note)


def _percent(part: int, whole: int) -> TableCell | None:
    return TableCell(f"{100 * part / whole:.2f}", 100 * part / whole) if whole else None


def _confusion(name: str, labels: list[str], counts: list[list[int]]) -> Chart:
    """Return the counts of labels (rows) by prediction (columns); shades are shares of a row."""
    last, cells = len(labels) - 1, []
    for row, numbers in enumerate(counts):
        for column, count in enumerate(numbers):
            low = (column - 0.5, last - row - 0.5)
            text = f"{count:,}" if len(labels) <= 6 else ""
            share = count / max(sum(numbers), 1)
            cells.append(Cell(low, (low[0] + 1, low[1] + 1), share, text))
    return Chart(
        f"{name}: confusion matrix",
        Axis("predicted", names=tuple(labels)),
        Axis("label", names=tuple(reversed(labels))),
        cells=cells,
        note="Rows by label and prediction; darker is a larger share of the label.",
    )


def _reliability(name: str, calibration: dict[str, Any], rows: int) -> Chart:
    points = [(100.0 * mean, 100.0 * right) for mean, right, _ in calibration["bins"]]
    low = min([*(min(point) for point in points), 100.0])
    return Chart(
        f"{name}: reliability, ECE {float(calibration['ece']):.1f}",
        Axis("confidence (%)"),
        Axis("accuracy (%)"),
        lines=[Line([(low, low), (100.0, 100.0)], aid=True), Line(points)],
        dots=[Dot(x, y) for x, y in points],
        note=f"Mean confidence and accuracy of {rows:,} rows in ten bins. Below the dashed line "
        "the model is too sure of itself. ECE: mean distance from it, in points.",
    )


def _thresholds(name: str, curve: list[list[float]], threshold: float) -> Chart:
    columns = (("EM", 1), ("F1", 2), ("EM, with answer", 3), ("EM, without", 4))
    lines = [
        Line([(row[0], row[column]) for row in curve], title, number)
        for number, (title, column) in enumerate(columns)
    ]
    here = min(curve, key=lambda row: abs(row[0] - threshold))
    return Chart(
        f"{name}: score by no-answer threshold",
        Axis("threshold of the no-answer odds"),
        Axis("%"),
        lines=lines,
        dots=[Dot(here[0], here[column], mark=True) for column in (1, 2)],
        note=f"Above the threshold the model abstains. The dots are at {threshold:.2f}, the "
        "threshold of the predictions; the best one of this figure is tuned on these very rows.",
    )
