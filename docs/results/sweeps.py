"""Tables and pictures of sweeps.md, from the sweeps of sweeps.sh.

Usage: python docs/results/sweeps.py figures SWEEPS     (writes sweeps-*.png beside itself)
       python docs/results/sweeps.py table SWEEPS       (prints Markdown)
       python docs/results/sweeps.py best SWEEP COUNT   (prints its best configurations as points)
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial

from road_ray.reporting.records.sweep_record import Sweep, read_sweep

NAMES = ("weighted_kd", "temperature", "generator_size", "loss_weight")
W, T = "weighting.wrong", "distillation.temperature"
WIDTH, SCALE = "encoder.hidden_size", "generator.scale"


def ranked(sweep: Sweep) -> list[FrozenTrial]:
    """Return the ranked trials, the best first."""
    return sorted(sweep.complete, key=lambda trial: trial.values[0], reverse=sweep.larger[0])


def score(trial: FrozenTrial) -> str:
    """Return the metric of a trial with its deviation over seeds."""
    spread = deviation(trial)
    return f"{trial.values[0]:.1f}" + ("" if spread is None else f" ± {spread:.1f}")


def deviation(trial: FrozenTrial) -> float | None:
    """Return the deviation of the metric over seeds, if there are several."""
    return next(iter(trial.user_attrs.get("deviation", ())), None)


def table(place: Path) -> str:
    """Return a row per sweep: its trials, the best score, and the score with new seeds."""
    lines = ["| sweep | trials | stopped | failed | minutes | drawn | in the sweep | new seeds |"]
    lines.append("|---" * 8 + "|")
    for name in NAMES:
        if not (place / name).is_dir():
            continue
        sweep = read_sweep(place / name)
        again = read_sweep(place / f"{name}-again").complete if _exists(place, name) else []
        states = Counter(trial.state.name for trial in sweep.trials)
        minutes = sum(trial.user_attrs.get("seconds", 0.0) for trial in sweep.trials) / 60
        head = [name, len(sweep.trials), states["PRUNED"], states["FAIL"], f"{minutes:.0f}"]
        for trial in ranked(sweep)[: max(1, len(again))]:
            repeated = [score(other) for other in again if other.params == trial.params]
            drawn = ", ".join(f"{_last(key)} {_short(trial.params[key])}" for key in sweep.varied)
            cells = [*head, drawn, score(trial), *(repeated or [""])]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            head = [""] * len(head)
    return "\n".join(lines)


def _exists(place: Path, name: str) -> bool:
    return (place / f"{name}-again" / "study.journal").is_file()


def _last(key: str) -> str:
    return key.rsplit(".", 1)[-1]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def generator_size(sweep: Sweep, path: Path) -> None:
    """Draw the score over the generator's width, a line per discriminator.

    Bars are deviations over seeds, a star marks the best of a line. Source: Clark et al. 2020,
    figure 3.
    """
    figure, axis = _drawn((6, 4))
    for width in sorted({trial.params[WIDTH] for trial in sweep.complete}):
        line = [trial for trial in sweep.complete if trial.params[WIDTH] == width]
        line.sort(key=lambda trial: trial.params[SCALE])
        across = [trial.params[SCALE] * width for trial in line]
        up = [trial.values[0] for trial in line]
        spread = [deviation(trial) or 0.0 for trial in line]
        bars = axis.errorbar(across, up, spread, marker="o", capsize=3, label=f"{width}")
        best = max(range(len(line)), key=up.__getitem__)
        axis.plot(across[best], up[best], "*", markersize=16, color=bars[0].get_color())
    axis.set(xlabel="generator's width", ylabel=sweep.metrics[0])
    axis.legend(title="discriminator's width")
    axis.grid(alpha=0.3)
    _saved(figure, path)


def heat(sweep: Sweep, path: Path) -> None:
    """Draw W by temperature: all trials at the last common step, and the completed ones at the end.

    Metrics of pruned and completed trials belong to different steps and are not comparable, so each
    panel shows one step only.
    """
    early = _first_common_step(sweep.trials)
    panels: list[tuple[str, list[tuple[FrozenTrial, float]]]] = []
    if early is not None:
        points = [
            (t, curve[early]) for t in sweep.trials if early in (curve := t.intermediate_values)
        ]
        panels.append((f"all trials, step {early:.0f}", points))
    panels.append(("at the end", [(trial, trial.values[0]) for trial in sweep.complete]))
    figure, axes = _drawn((5.4 * len(panels), 4.2), len(panels))
    for axis, (title, found) in zip(axes if len(panels) > 1 else [axes], panels, strict=True):
        _field(axis, found)
        axis.set(title=title, xlabel="W of a wrong teacher", ylabel="temperature", yscale="log")
        axis.set_yticks([1, 2, 3, 5, 10], labels=["1", "2", "3", "5", "10"], minor=False)
        axis.set_yticks([], minor=True)
    figure.suptitle(sweep.metrics[0])
    _saved(figure, path)


def _field(axis: Any, found: Sequence[tuple[FrozenTrial, float]]) -> None:
    """Draw trials as dots over a surface smoothed by a Gaussian kernel."""
    import numpy as np

    places = np.array([(t.params[W], np.log10(t.params[T])) for t, _ in found])
    values = np.array([value for _, value in found])
    across, up = np.linspace(0, 1, 33), np.linspace(0, 1, 33)
    middle = np.stack(np.meshgrid((across[1:] + across[:-1]) / 2, (up[1:] + up[:-1]) / 2), -1)
    gaps = ((middle[:, :, None] - places) ** 2).sum(-1)
    width = 0.29 * len(values) ** (-1 / 6)  # Scott's rule for points spread evenly over 0 to 1
    weight = np.exp(-gaps / (2 * width**2)) + 1e-9
    shades = {"vmin": values.min(), "vmax": values.max(), "cmap": "viridis"}
    axis.pcolormesh(across, 10**up, (weight * values).sum(-1) / weight.sum(-1), **shades)
    dots = axis.scatter(
        places[:, 0], 10 ** places[:, 1], c=values, edgecolors="white", s=48, **shades
    )
    axis.figure.colorbar(dots, ax=axis)


def _first_common_step(trials: Sequence[FrozenTrial]) -> int | None:
    """Return the latest step that every trial with a curve has reported."""
    steps = [{*curve} for trial in trials if (curve := trial.intermediate_values)]
    return max(set.intersection(*steps), default=None) if steps else None


def _drawn(size: tuple[float, float], columns: int = 1) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, columns, figsize=size)


def _saved(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(path)


def figures(place: Path) -> None:
    """Draw both pictures, if their sweeps exist."""
    for name, draw in (("generator_size", generator_size), ("weighted_kd", heat)):
        if (place / name).is_dir():
            draw(read_sweep(place / name), Path(__file__).with_name(f"sweeps-{name}.png"))


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "best":
        best = ranked(read_sweep(where))[: int(sys.argv[3])]
        print(json.dumps([dict(trial.params) for trial in best]))
    elif what == "table":
        print(table(where))
    else:
        figures(where)
