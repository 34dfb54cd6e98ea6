"""Figures of the predictions of a run, from ``predictions/<data set>/diagnostics.json``: scores of
each label, confusion matrix, reliability diagram, scores by no-answer threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from road_ray.errors import RoadError
from road_ray.reporting.pages.page import Block, Cell, Figures, Prose, Table, Value
from road_ray.reporting.plots import (
    Plot,
    add_legend,
    colors,
    heat_map,
    mark_points,
    new_plot,
    palette,
)
from road_ray.reporting.records.run_record import RunRecord
from road_ray.system.json_file import read_json

_MOST_SETS = 6


def prediction_figures(run: RunRecord) -> list[Block]:
    """Return the figures of every data set with predictions, or a sentence for a damaged file."""
    blocks: list[Block] = []
    plots: list[Plot] = []
    paths = sorted((run.directory / "predictions").glob("*/diagnostics.json"))
    for path in paths[:_MOST_SETS]:
        try:
            known = read_json(path)
            plots += _plots(path.parent.name, known)
            if "confusion" in known:
                labels = [str(label) for label in known["labels"]]
                blocks.append(label_table(path.parent.name, labels, known["confusion"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError, RoadError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            blocks.append(Prose([f"{path.parent.name}: no figures: {why}"]))
    if len(paths) > _MOST_SETS:
        blocks.append(Prose([f"The first {_MOST_SETS} of {len(paths)} data sets."]))
    return [Figures(plots), *blocks] if plots else blocks


def _plots(name: str, known: dict[str, Any]) -> Iterator[Plot]:
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
    rows: list[Sequence[Value | Cell]] = []
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


def _percent(part: int, whole: int) -> Cell | None:
    return Cell(f"{100 * part / whole:.2f}", 100 * part / whole) if whole else None


def _confusion(name: str, labels: list[str], counts: list[list[int]]) -> Plot:
    """Return the counts of labels (rows) by prediction (columns); shades are shares of a row."""
    note = "Rows by label and prediction; darker is a larger share of the label."
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    plot = new_plot(f"{name}: confusion matrix", "predicted", "label", note=note)
    return heat_map(plot, counts, shares, ",d" if len(labels) <= 6 else "", labels, labels)


def _reliability(name: str, calibration: dict[str, Any], rows: int) -> Plot:
    points = [(100.0 * mean, 100.0 * right) for mean, right, _ in calibration["bins"]]
    low = min([*(min(point) for point in points), 100.0])
    plot = new_plot(
        f"{name}: reliability, ECE {float(calibration['ece']):.1f}",
        "confidence (%)",
        "accuracy (%)",
        note=f"Mean confidence and accuracy of {rows:,} rows in ten bins. Below the dashed line "
        "the model is too sure of itself. ECE: mean distance from it, in points.",
    )
    plot.axes.plot([low, 100.0], [low, 100.0], "--", color=palette()["line"])
    plot.axes.plot(*zip(*points, strict=True), marker="o", color=colors("s")[0])
    return plot


def _thresholds(name: str, curve: list[list[float]], threshold: float) -> Plot:
    plot = new_plot(
        f"{name}: score by no-answer threshold",
        "threshold of the no-answer odds",
        "%",
        note=f"Above the threshold the model abstains. The dots are at {threshold:.2f}, the "
        "threshold of the predictions; the best one of this figure is tuned on these very rows.",
    )
    thresholds, *columns = zip(*curve, strict=True)
    titles = ("EM", "F1", "EM, with answer", "EM, without")
    for title, column in zip(titles, columns, strict=True):
        plot.axes.plot(thresholds, column, label=title)
    add_legend(plot)
    here = min(curve, key=lambda row: abs(row[0] - threshold))
    mark_points(plot, [(here[0], here[1]), (here[0], here[2])])
    return plot
