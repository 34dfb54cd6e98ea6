"""Plots of a run: its curves with the mark of the best checkpoint, and its predictions from
``predictions/<data set>/diagnostics.json`` (scores of each label with the confusion matrix,
reliability diagram, scores by no-answer threshold).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from road_ray.errors import RoadError
from road_ray.reporting.health import is_loss
from road_ray.reporting.pages.page import Block, Cell, Figures, Prose, Table, Value
from road_ray.reporting.plots import (
    Plot,
    add_legend,
    colors,
    logarithmic,
    mark_points,
    new_plot,
    palette,
)
from road_ray.reporting.records.run_record import RunRecord
from road_ray.reporting.text_tables import is_principal, metric_title
from road_ray.system.files import read_json

_TITLES = {
    "train/grad_norm": "Gradient norm",
    "train/lr": "Learning rate",
    "train/generator": "Generator loss (nats)",
    "train/discriminator": "Discriminator loss (nats)",
    "train/detection_auc": "Detection, area under the ROC curve",
    "train/replaced_fraction": "Share of tokens replaced",
    "train/generator_accuracy": "Generator accuracy",
    "train/generator_entropy": "Generator entropy (nats)",
    "train/grad_norm_generator": "Gradient norm of the generator",
    "train/grad_norm_discriminator": "Gradient norm of the discriminator",
    "time/tokens_per_second": "Tokens a second",
}
_MOST_CURVES = 24
_MOST_SETS = 6


def curves(run: RunRecord) -> list[Plot]:
    """Return a plot for every series of the run with at least two points, losses first.

    The losses on labels and on teachers of one task share a plot.
    """
    names = run.names("train/")
    soft = {name.removesuffix("_soft") for name in names if name.endswith("_soft")}
    drawn = [name for name in names if not name.endswith("_soft")]
    drawn += [n for n in run.names("eval/") if is_principal(n)] + ["time/tokens_per_second"]
    plots = []
    for name in drawn[:_MOST_CURVES]:
        points = run.series(name)
        if len(points) < 2:
            continue
        best, note = _best(run, name)
        plot = new_plot(curve_title(name, soft), "step", note=note)
        plot.axes.plot(*zip(*points, strict=True), label="labels")
        plot.axes.locator_params(axis="x", integer=True)
        if name in soft:
            plot.axes.plot(*zip(*run.series(f"{name}_soft"), strict=True), label="teachers")
            add_legend(plot)
        if name.startswith("train/grad_norm") and all(y > 0 for _, y in points):
            logarithmic(plot.axes.yaxis)
        mark_points(plot, best)
        plots.append(plot)
    return plots


def _best(run: RunRecord, name: str) -> tuple[list[tuple[float, float]], str]:
    """Return the mark of the checkpoint that the model comes from, or else of the highest value."""
    points = run.series(name)
    if not name.startswith("eval/") or len(points) < 2:
        return [], ""
    steps = [event.get("step") for event in run.events if event.get("kind") == "best_checkpoint"]
    if steps and isinstance(steps[-1], int):
        step = steps[-1]
        value = next((y for x, y in points if x == step), None)
        text = f"The dot is the best checkpoint, step {step:,}: the final model."
        return ([] if value is None else [(step, value)]), text
    highest = max(points, key=lambda point: point[1])
    text = f"The dot is the highest value, at step {highest[0]:,.0f}; "
    return [highest], f"{text}the final model is that of the last step."


def curve_title(name: str, soft: Collection[str] = ()) -> str:
    """Return the title of a curve; ``soft`` has the losses with a soft counterpart."""
    plain = name.split("/", 1)[1]
    if name in _TITLES:
        return _TITLES[name]
    if not name.startswith("train/"):
        return f"{plain.split('/')[0]}, {metric_title(plain.split('/')[-1])}"
    return f"Loss on {plain} (nats)" if is_loss(name) else plain.replace("_", " ").capitalize()


def prediction_figures(run: RunRecord) -> list[Block]:
    """Return plots and tables of the predictions on every data set, or a sentence if damaged."""
    blocks: list[Block] = []
    plots: list[Plot] = []
    paths = sorted((run.directory / "predictions").glob("*/diagnostics.json"))
    for path in paths[:_MOST_SETS]:
        try:
            known = read_json(path)
            name, drawn = path.parent.name, []
            if "calibration" in known:
                drawn.append(_reliability(name, known["calibration"], int(known["rows"])))
            if "coverage" in known:
                drawn.append(_coverage(name, known["coverage"]))
            if "thresholds" in known:
                drawn.append(_thresholds(name, known["thresholds"], float(known["threshold"])))
            plots += drawn
            if "confusion" in known:
                labels = [str(label) for label in known["labels"]]
                blocks.append(label_table(name, labels, known["confusion"]))
            if of_labels := known.get("per_label"):
                head = [name, *next(iter(of_labels.values()))]
                blocks.append(Table(head, [[n, *row.values()] for n, row in of_labels.items()]))
        except (OSError, ValueError, KeyError, TypeError, IndexError, RoadError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            blocks.append(Prose([f"{path.parent.name}: no plots: {why}"]))
    if len(paths) > _MOST_SETS:
        blocks.append(Prose([f"The first {_MOST_SETS} of {len(paths)} data sets."]))
    return [Figures(plots), *blocks] if plots else blocks


def label_table(name: str, labels: list[str], counts: list[list[int]]) -> Table:
    """Return precision, recall and F1 of each label, in percent, and how often each label is
    predicted for it, from ``counts[gold][predicted]``, with the accuracy of always predicting the
    most frequent label.
    """
    predicted = [sum(column) for column in zip(*counts, strict=True)]
    rows: list[Sequence[Value | Cell]] = []
    for place, label in enumerate(labels):
        right, gold, chosen = counts[place][place], sum(counts[place]), predicted[place]
        # Precision of a label that is never predicted is undefined, not zero.
        precision = _percent(right, chosen)
        scores = [precision, _percent(right, gold), _percent(2 * right, gold + chosen)]
        # Zeros of the confusion matrix are left out.
        rows.append([label, gold, chosen, *scores, *(count or None for count in counts[place])])
    total, most = sum(predicted), max(range(len(labels)), key=lambda n: sum(counts[n]))
    right = sum(counts[place][place] for place in range(len(labels)))
    note = (
        f"Accuracy {100 * right / max(total, 1):.2f}; always {labels[most]}: "
        f"{100 * sum(counts[most]) / max(total, 1):.2f}."
    )
    if total and len(labels) > 1 and sum(count > 0 for count in predicted) == 1:
        only = labels[max(range(len(labels)), key=lambda n: predicted[n])]
        note += f" The model predicts {only} for every row."
    names = [name, "rows", "predicted", "precision", "recall", "F1"]
    return Table([*names, *(f"as {label}" for label in labels)], rows, note=note)


def _percent(part: int, whole: int) -> Cell | None:
    return Cell(f"{100 * part / whole:.2f}", 100 * part / whole) if whole else None


def _reliability(name: str, calibration: dict[str, Any], rows: int) -> Plot:
    points = [(100.0 * mean, 100.0 * right) for mean, right, _ in calibration["bins"]]
    low = min([*(min(point) for point in points), 100.0])
    plot = new_plot(
        f"{name}: reliability, ECE {float(calibration['ece']):.1f}",
        "confidence (%)",
        "accuracy (%)",
        note=f"Mean confidence and accuracy of {rows:,} rows in 15 bins. Below the dashed line "
        "the model is too sure of itself. ECE: mean distance from it, in points.",
    )
    plot.axes.plot([low, 100.0], [low, 100.0], "--", color=palette()["line"])
    plot.axes.plot(*zip(*points, strict=True), marker="o", color=colors("s")[0])
    return plot


def _coverage(name: str, curve: list[list[float]]) -> Plot:
    plot = new_plot(
        f"{name}: accuracy by coverage",
        "rows answered (%)",
        "accuracy on them (%)",
        note="A model that answers only its surest rows: `road predict --min-confidence`. "
        f"All rows: {curve[0][2]:.1f}; the surest {curve[-1][1]:.0f}%: {curve[-1][2]:.1f}.",
    )
    plot.axes.plot([row[1] for row in curve], [row[2] for row in curve], marker="o")
    return plot


def _thresholds(name: str, curve: list[list[float]], threshold: float) -> Plot:
    plot = new_plot(
        f"{name}: score by no-answer threshold",
        "threshold of the no-answer odds",
        "%",
        note=f"Above the threshold the model abstains. The dots are at {threshold:.2f}, the "
        "threshold of the predictions; the best one of this plot is tuned on these very rows.",
    )
    thresholds, *columns = zip(*curve, strict=True)
    titles = ("EM", "F1", "EM, with answer", "EM, without")
    for title, column in zip(titles, columns, strict=True):
        plot.axes.plot(thresholds, column, label=title)
    add_legend(plot)
    here = min(curve, key=lambda row: abs(row[0] - threshold))
    mark_points(plot, [(here[0], here[1]), (here[0], here[2])])
    return plot
