"""Page of one run: result, curves, health, time, teachers, predictions, faults, lineage.

Predictions are drawn from ``predictions/<data set>/diagnostics.json``: scores of each label with
the confusion matrix, reliability diagram, scores by no-answer threshold, mistakes.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from road_ray.errors import RoadError, first_line
from road_ray.reporting.health import NO_LOSS, advice, checks, loss_names, right_counts, time_split
from road_ray.reporting.pages.page import (
    Block,
    Cell,
    Example,
    Folded,
    Page,
    Row,
    Section,
    Table,
    cell,
    filled,
    setting,
)
from road_ray.reporting.plots import SERIES, Plot, add_legend, logarithmic, new_plot
from road_ray.reporting.records.comparison_table import published_line
from road_ray.reporting.records.run_record import (
    CONFIG,
    ROUTINE,
    RunRecord,
    ancestors,
    describe_model,
)
from road_ray.reporting.text_tables import BASELINES, duration, is_principal, metric_title
from road_ray.system.files import read_json

# Metrics of a pre-training that stand among the tiles.
_TRAINED = ("train/detection_auc", "train/generator_accuracy", "train/mlm_accuracy")


def run_page(run: RunRecord) -> Page:
    """Return the page of a run."""
    note = "Percentages, larger is better."
    if run.limits:
        note += f" Not comparable with published results: {', '.join(run.limits)}."
    about_health = "Checks of losses, gradients, teachers and predictions."
    evaluated = any(name.startswith("eval/") for name in run.metrics)
    sections = [
        Section("Result", _result(run), note if evaluated else ""),
        Section("Curves", [curves(run)]),
        Section("Health", [Table(["check", "reading", "meaning"], checks(run))], about_health),
        *_time_and_teachers(run),
        Section("Predictions", prediction_figures(run)),
        Section("Faults", _events(run)),
        *_origin(run),
    ]
    keys = ("data.datasets", "data.dataset", "data.corpus")
    on = next(filter(None, map(run.settings.get, keys)), None)
    about = [f"Data: {', '.join(map(str, on)) if isinstance(on, list) else on}."] if on else []
    if not run.finished:
        about.append(f"Not finished: the last row is of step {run.steps:,}.")
    about += run.problems
    name = run.directory.resolve().name
    return Page(name, " ".join(about), f"road {run.verb}", _tiles(run), filled(sections))


def _tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    tiles = []
    for name, value in list(headline(run.metrics).items())[:4]:
        dataset, metric = _parts(name)
        known = "" if run.limits else published_line(dataset, metric, 1)
        remark = run.limits[-1] if run.limits else known and f"paper: {known}"
        tiles.append((f"{dataset} {metric_title(metric)}", f"{value:.2f}", remark))
    for name in () if tiles else _TRAINED:
        if (last := run.last(name)) is not None:
            tiles.append((curve_title(name), f"{last:.3f}", "at the end of the run"))
    if (losses := loss_names(run)) and (points := run.series(losses[0])):
        remark = f"{points[0][1]:.3f} at the first row"
        tiles.append((curve_title(losses[0]), f"{points[-1][1]:.3f}", remark))
    early = [event.get("best_step") for event in run.events if event.get("kind") == "stopped_early"]
    if run.steps:
        remark = f"stopped early, the best is step {setting(early[-1])}" if early else ""
        tiles.append(("steps", f"{run.steps:,}", remark))
    if run.seconds:
        tiles.append(("time in steps", duration(run.seconds), ""))
    if speed := run.last("time/tokens_per_second"):
        share = run.last("time/mfu")
        remark = f"{share:.0%} of the device's peak (MFU)" if share else "at the end of the run"
        tiles.append(("tokens a second", f"{speed:,.0f}", remark))
    return tiles


def headline(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return the principal metrics; those at a threshold replace their untuned counterparts."""
    shown = {n: v for n, v in metrics.items() if is_principal(n) and isinstance(v, int | float)}
    plain = {name.replace("/at_threshold_", "/") for name in shown if "/at_threshold_" in name}
    return {name: value for name, value in shown.items() if name not in plain}


def _parts(name: str) -> tuple[str, str]:
    """Return data set and metric: ``eval/squad_v2/f1`` gives ``squad_v2``, ``f1``."""
    pieces = name.split("/", 2)  # labels may have slashes
    return pieces[1] if len(pieces) > 2 else "", pieces[-1]


def _result(run: RunRecord) -> list[Block]:
    """Return the principal metrics, the scores of questions with and without answer of data sets
    that have both, and all metrics, folded.
    """
    if not run.metrics:
        return ["No final metrics."]
    rows, by_answer = list[Row](), list[Row]()
    for name, value in run.metrics.items():
        if is_principal(name) or name.endswith(BASELINES):
            dataset, metric = _parts(name)
            papers = None if run.limits else published_line(dataset, metric) or None
            shown = None if value is None else Cell(f"{value:.2f}", value, strong=True)
            rows.append([dataset, metric_title(metric), shown, papers])
        if name.endswith("/NoAns_exact") and name.replace("NoAns", "HasAns") in run.metrics:
            start = name.removesuffix("NoAns_exact")
            tuned = f"{start}at_threshold_exact" in run.metrics
            prefix = f"{start}at_threshold_" if tuned else start
            for title, group in (("with answer", "HasAns_"), ("without answer", "NoAns_")):
                scores = [run.metrics.get(f"{prefix}{group}{score}") for score in ("exact", "f1")]
                count = int(run.metrics.get(f"{start}{group}total") or 0)
                cells = (cell(score, ".2f") for score in scores)
                by_answer.append([start.split("/")[1], title, count, *cells])
    names = ["data set", "metric", "value", "published"][: 4 if any(row[3] for row in rows) else 3]
    table = Table(names, [row[: len(names)] for row in rows])
    if not rows:  # of a pre-training
        trained = {name: x for name, x in run.metrics.items() if name.startswith("train/")}
        table = Table(["metric", "value"], [[curve_title(n), x] for n, x in trained.items()])
    note = "At the stored no-answer threshold where there is one, else at 0."
    answers = Table(["data set", "questions", "number", "EM", "F1"], by_answer, note=note)
    every = "\n".join(f"{name:<44}{value}" for name, value in run.metrics.items())
    return [table, answers, Folded(f"all {len(run.metrics)} metrics", every)]


def _time_and_teachers(run: RunRecord) -> list[Section]:
    """Return where the time of a mean step goes, and how often teachers were right."""
    times, right = list[Block](), list[Block]()
    if split := time_split(run):
        rows: list[Row] = [[name, 1000 * s] for name, s in split.items() if s > 0]
        rows.append(["the whole step", 1000 * sum(split.values())])
        times = [Table(["mean over steps", "ms"], rows), advice(run, split)]
    counts = right_counts(run)
    if total := sum(counts):
        most = len(counts) - 1
        rows = [[f"{number} of {most}", 100 * count / total] for number, count in enumerate(counts)]
        note = f"Of {total:,.0f} training rows (for spans: of starts and ends)."
        right = [Table(["teachers that were right", "% of rows"], rows, note=note)]
    return [Section("Time", times), Section("Teachers", right)]


def _events(run: RunRecord) -> list[Block]:
    """Return the table of faults, and the events of a run without faults, folded."""
    rows: list[Row] = []
    routine = []
    for event in run.events:
        when = str(event.get("time", ""))[:19].replace("T", " ")
        kind = str(event.get("kind", "?"))
        rest = "; ".join(
            f"{k}: {setting(v)}" for k, v in event.items() if k not in ("time", "kind")
        )
        if kind in ROUTINE:
            routine.append(f"{when}  {kind}  {rest}")
        else:
            rows.append([when, kind, rest])
    blocks: list[Block] = [Table(["time (UTC)", "what", "details"], rows)]
    if run.rows and not rows:
        blocks.append("None recorded.")
    if routine:
        blocks.append(Folded(f"routine events: {len(routine)}", "\n".join(routine)))
    return blocks


def _origin(run: RunRecord) -> list[Section]:
    """Return the table of this model, its ancestors and its teachers, and how it was made."""
    own = [("this model", str(run.directory), run.model)] if run.model else []  # no evaluation
    rows = [
        [role, where, describe_model(facts), str(facts.get("weights_sha256") or "")[:12] or None]
        for role, where, facts in [*own, *ancestors(run)]
    ]
    parts = {"environment": run.environment, "configuration": run.config}
    texts = {name: json.dumps(x, indent=2, default=str) for name, x in parts.items() if x}
    if run.config:
        words = [run.verb, str(run.directory / CONFIG), "--run-dir", f"{run.directory}-again"]
        texts = {"to repeat this run": shlex.join(["road", *words])} | texts
    return [
        Section("Lineage", [Table(["", "where", "what", "weights"], rows)]),
        Section("Set-up", [Folded(title, text) for title, text in texts.items()]),
    ]


_TITLES = {
    "train/grad_norm": "Gradient norm",
    "train/lr": "Learning rate",
    "train/detection_auc": "Detection, area under the ROC curve",
    "time/tokens_per_second": "Tokens a second",
}
_MOST_CURVES = 24


def curves(run: RunRecord) -> list[Plot]:
    """Return a plot for every series of the run with at least two points, losses first.

    The losses on labels and on teachers of one task share a plot.
    """
    drawn = [name for name in run.names("train/") if not name.endswith("_soft")]
    drawn += [n for n in run.names("eval/") if is_principal(n)] + ["time/tokens_per_second"]
    kept = [event.get("step") for event in run.events if event.get("kind") == "best_checkpoint"]
    plots = []
    for name in drawn[:_MOST_CURVES]:
        points = run.series(name)
        if len(points) < 2:
            continue
        best = [point for point in points if name.startswith("eval/") and point[0] in kept[-1:]]
        note = f"The dot is the best checkpoint, step {kept[-1]}: the final model." if best else ""
        top = max(points, key=lambda point: point[1])
        if name.startswith("eval/") and not kept and top[1] > points[-1][1]:
            best, note = [top], "The dot is the highest; the final model is that of the last step."
        plot = new_plot(curve_title(name), "step", note=note)
        plot.axes.plot(*zip(*points, strict=True), label="labels")
        if soft := run.series(f"{name}_soft"):
            plot.axes.plot(*zip(*soft, strict=True), label="teachers")
            add_legend(plot)
        if name.startswith("train/grad_norm") and all(y > 0 for _, y in points):
            logarithmic(plot.axes.yaxis, [y for _, y in points])
        for point in best:
            plot.axes.plot(*point, "o", color=SERIES[1], markeredgecolor="black")
        plots.append(plot)
    return plots


def curve_title(name: str) -> str:
    """Return the title of a curve."""
    plain = name.split("/", 1)[1]
    if name in _TITLES:
        return _TITLES[name]
    if not name.startswith("train/"):
        return f"{plain.split('/')[0]}, {metric_title(plain.split('/')[-1])}"
    other = NO_LOSS.fullmatch(name)
    return plain.replace("_", " ").capitalize() if other else f"Loss on {plain} (nats)"


def prediction_figures(run: RunRecord) -> list[Block]:
    """Return plots, tables and mistakes of the predictions on every data set, or a sentence if
    damaged.
    """
    blocks: list[Block] = []
    plots: list[Plot] = []
    for path in sorted((run.directory / "predictions").glob("*/diagnostics.json")):
        name = path.parent.name
        try:
            plots_of_set, tables = _of_dataset(name, read_json(path))
            plots += plots_of_set
            blocks += tables
        except (OSError, ValueError, LookupError, TypeError, RoadError) as error:
            blocks.append(f"{name}: no plots: {first_line(error)}")
    return [plots, *blocks]


def _of_dataset(name: str, known: dict[str, Any]) -> tuple[list[Plot], list[Block]]:
    """Return the plots, and tables and mistakes, of the predictions on one data set."""
    plots, tables = list[Plot](), list[Block]()
    if "calibration" in known:
        plots.append(_reliability(name, known["calibration"], int(known["rows"])))
    if "coverage" in known:
        plots.append(_coverage(name, known["coverage"]))
    if "thresholds" in known:
        plots.append(_thresholds(name, known["thresholds"], float(known["threshold"])))
    if "confusion" in known:
        names = [*map(str, known["labels"])]
        rows: list[Row] = [  # zeros are left out
            [label, *(count or None for count in counts)]
            for label, counts in zip(names, known["confusion"], strict=True)
        ]
        tables.append(Table([f"{name}: rows", *(f"as {label}" for label in names)], rows))
    if of_labels := known.get("per_label"):
        head = [name, *next(iter(of_labels.values()))]
        tables.append(Table(head, [[n, *row.values()] for n, row in of_labels.items()]))
    if wrong := known.get("mistakes"):
        tables.append(f"{name}: {wrong['wrong']:,} of {wrong['rows']:,} {wrong['what']}")
        tables.append([Example(**one) for one in wrong["examples"]])
    return plots, tables


def _reliability(name: str, calibration: dict[str, Any], rows: int) -> Plot:
    points = [(100.0 * mean, 100.0 * right) for mean, right, _ in calibration["bins"]]
    low = min([*(min(point) for point in points), 100.0])
    note = f"Mean confidence and accuracy of {rows:,} rows in 15 bins. Below the dashed line "
    note += "the model is too sure of itself. ECE: mean distance from it, in points."
    title = f"{name}: reliability, ECE {float(calibration['ece']):.1f}"
    plot = new_plot(title, "confidence (%)", "accuracy (%)", note=note)
    plot.axes.plot([low, 100.0], [low, 100.0], "--", color="lightgray")
    plot.axes.plot(*zip(*points, strict=True), marker="o", color=SERIES[0])
    return plot


def _coverage(name: str, curve: list[list[float]]) -> Plot:
    note = "A model that answers only its surest rows: road predict --min-confidence. "
    note += f"All rows: {curve[0][2]:.1f}; the surest {curve[-1][1]:.0f}%: {curve[-1][2]:.1f}."
    axes = "rows answered (%)", "accuracy on them (%)"
    plot = new_plot(f"{name}: accuracy by coverage", *axes, note=note)
    plot.axes.plot([row[1] for row in curve], [row[2] for row in curve], marker="o")
    return plot


def _thresholds(name: str, curve: list[list[float]], threshold: float) -> Plot:
    note = f"Above the threshold the model abstains. The dots are at {threshold:.2f}, the "
    note += "threshold of the predictions; the best one of this plot is tuned on these very rows."
    axes = "threshold of the no-answer odds", "%"
    plot = new_plot(f"{name}: score by no-answer threshold", *axes, note=note)
    thresholds, *columns = zip(*curve, strict=True)
    titles = ("EM", "F1", "EM, with answer", "EM, without")
    for title, column in zip(titles, columns, strict=True):
        plot.axes.plot(thresholds, column, label=title)
    add_legend(plot)
    here = min(curve, key=lambda row: abs(row[0] - threshold))
    for score in here[1:3]:
        plot.axes.plot(here[0], score, "o", color=SERIES[1], markeredgecolor="black")
    return plot
