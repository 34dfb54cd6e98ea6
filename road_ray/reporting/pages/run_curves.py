"""Curves of a run: titles, losses with their soft counterparts, the mark of the best checkpoint."""

from __future__ import annotations

from collections.abc import Collection

from road_ray.reporting.health import is_loss
from road_ray.reporting.plots import Plot, add_legend, logarithmic, mark_points, new_plot
from road_ray.reporting.records.run_record import RunRecord
from road_ray.reporting.text_tables import is_principal, metric_title

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
