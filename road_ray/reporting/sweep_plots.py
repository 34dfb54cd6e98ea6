"""Plots of a sweep: history, importance, two keys, slices, Pareto front, learning curves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from road_ray.reporting.plots import (
    Plot,
    colors,
    intervals,
    link_trials,
    logarithmic,
    name_ticks,
    new_plot,
    palette,
    shade_colors,
)
from road_ray.reporting.records.sweep_record import Sweep, Trial

if TYPE_CHECKING:
    from matplotlib.axis import Axis

_MOST_SLICES = 12
_W, _T = "weighting.wrong", "distillation.temperature"


def shades(values: Sequence[float], *, larger_is_better: bool) -> list[float]:
    """Return the rank of each value between the worst (0) and the best (1).

    With ranks, one diverged trial does not give all others a single colour. Equal values are all
    best.
    """
    from scipy.stats import rankdata

    ranks = rankdata(values if larger_is_better else [-value for value in values], "dense")
    last = max(ranks, default=1) - 1
    return [float(rank - 1) / last if last else 1.0 for rank in ranks]


@dataclass(frozen=True)
class SweepPlots:
    """Plots of one sweep for its first metric. Nothing is ranked if the trials are ``tied``."""

    sweep: Sweep
    tied: bool = False

    @cached_property
    def shade(self) -> dict[int, float | None]:
        """Return the rank from worst (0) to best (1) of each complete trial, by number; None for
        trials that tie.
        """
        complete = self.sweep.complete
        if self.tied:
            return {trial.number: None for trial in complete}
        ranks = shades([t.values[0] for t in complete], larger_is_better=self.sweep.larger[0])
        return {trial.number: shade for trial, shade in zip(complete, ranks, strict=True)}

    @cached_property
    def importances(self) -> dict[str, float]:
        """Return keys with their importance, the most important first; none for a tie."""
        return {} if self.tied else importances(self.sweep)

    def all(self) -> list[Plot]:
        """Return every plot that applies to this sweep."""
        first = [self.front(), self.history(), self.importance(), self.curves()]
        plots = [plot for plot in first if plot is not None]
        if len(self.sweep.complete) > 1 and self.sweep.varied:
            if not self.tied and (surface := self.surface()):
                plots.append(surface)
            plots += [
                self._scatter(key, key, self.sweep.metrics[0])
                for key in self.sweep.varied[:_MOST_SLICES]
            ]
        return plots

    def history(self) -> Plot:
        """Return the value of each trial and the best value so far."""
        complete = self.sweep.complete
        note = "The line is the best so far." if complete else "No trial is complete."
        plot = self._scatter(f"History: {self.sweep.metrics[0]}", "trial", "", note)
        best = [*accumulate((t.values[0] for t in complete), max if self.sweep.larger[0] else min)]
        if best:
            last = max(trial.number for trial in self.sweep.trials)
            steps = [*(trial.number for trial in complete), last]
            plot.axes.step(steps, [*best, best[-1]], where="post", color=colors("s")[1])
        return plot

    def importance(self) -> Plot | None:
        """Return the importance of each key, or None with too few trials."""
        if not self.importances:
            return None
        rows = [(key, 100 * share, None, ()) for key, share in self.importances.items()]
        note = "How far the values of a key differ between the best tenth of the trials and all"
        note += " trials, as a share of the sum over the keys (PED-ANOVA)."
        return intervals("Importance (%)", rows, note, zero=True)

    def curves(self) -> Plot | None:
        """Return the metric during every trial; curves of stopped trials end early."""
        from matplotlib.collections import LineCollection

        drawn = [trial for trial in self.sweep.trials if len(trial.curve) > 1]
        if not drawn:
            return None
        drawn.sort(key=lambda trial: self.shade.get(trial.number) or -1.0)
        note = f"{len(drawn)} trials; stopped trials end early."
        note += "" if self.tied else " The best one is bold."
        plot = new_plot(f"During the trials: {self.sweep.metrics[0]}", "step", note=note)
        best = set() if self.tied else {trial.number for trial in self.sweep.best}
        ranks = [self.shade.get(trial.number) or 0.0 for trial in drawn]
        lines = LineCollection(
            [trial.curve for trial in drawn],
            colors=[
                colors("s")[1] if trial.number in best else color
                for trial, color in zip(drawn, shade_colors(ranks), strict=True)
            ],
            linewidths=[2.2 if trial.number in best else 1.0 for trial in drawn],
        )
        link_trials(lines, [trial.number for trial in drawn])
        plot.axes.add_collection(lines)
        plot.axes.autoscale_view()
        return plot

    def surface(self) -> Plot | None:
        """Return the trials over W and temperature if both were sampled, else over the two most
        important keys of numbers; between the dots nothing is known.
        """
        numbers = [
            key
            for key in dict.fromkeys([*self.importances, *self.sweep.varied])
            if all(_is_number(t.params[key]) for t in self.sweep.trials if key in t.params)
        ]
        if len(numbers) < 2:
            return None
        x, y = (_T, _W) if {_T, _W} <= {*numbers} else numbers[:2]
        title = " \N{MULTIPLICATION SIGN} ".join(key.rsplit(".", 1)[-1] for key in (x, y))
        return self._scatter(title, x, y, "Darker is better.")

    def front(self) -> Plot | None:
        """Return the first two metrics with their Pareto front, or None for one metric."""
        if len(self.sweep.metrics) < 2:
            return None
        note = f"{len(self.sweep.best)} trials on the front; no trial is better in every metric."
        plot = self._scatter("Pareto front", self.sweep.metrics[0], self.sweep.metrics[1], note)
        best = sorted((trial.values[0], trial.values[1]) for trial in self.sweep.best)
        plot.axes.plot(*zip(*best, strict=True), color=colors("s")[1])
        for n, axis in enumerate((plot.axes.xaxis, plot.axes.yaxis)):
            values = [trial.values[n] for trial in self.sweep.complete]
            if values and min(values) > 0 and max(values) / min(values) > 50:
                logarithmic(axis)
        return plot

    def _scatter(self, title: str, x: str, y: str, note: str = "") -> Plot:
        """Return a plot with a dot for each complete trial. An axis is a key, a metric, the number
        of the trial ("trial"), or the first metric without a label.
        """
        trials = [
            trial
            for trial in self.sweep.complete
            if all(name in trial.params for name in (x, y) if name in self.sweep.params)
        ]
        plot = new_plot(title, x, y, note=note)
        across = self._values(x, trials, plot.axes.xaxis)
        up = self._values(y or self.sweep.metrics[0], trials, plot.axes.yaxis)
        shade = shade_colors([self.shade[trial.number] for trial in trials])
        dots = plot.axes.scatter(across, up, 36, shade, edgecolors=palette()["card"], zorder=3)
        link_trials(dots, [trial.number for trial in trials])
        return plot

    def _values(self, name: str, trials: Sequence[Trial], axis: Axis) -> list[float]:
        """Return the position of each trial on an axis, and set its scale or its names."""
        if name in self.sweep.metrics:
            return [trial.values[self.sweep.metrics.index(name)] for trial in trials]
        if name == "trial":
            axis.axes.locator_params(axis="x", integer=True)
            return [float(trial.number) for trial in trials]
        values = [trial.params[name] for trial in trials]
        if all(_is_number(value) for value in values):
            if name in self.sweep.logs and all(value > 0 for value in values):
                logarithmic(axis)
            return values
        names = sorted({str(value) for value in values})
        name_ticks(axis, names)
        return [float(names.index(str(value))) for value in values]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def importances(sweep: Sweep) -> dict[str, float]:
    """Return the importance of each key, the most important first; empty if it cannot be estimated.

    The importance of a key for being among the best tenth of the trials, as a share of the sum
    over the keys. PED-ANOVA (Watanabe et al. 2023) takes a fraction of a second for a thousand
    trials; fANOVA takes minutes.
    """
    if sweep.study is None or len(sweep.complete) < 4 or len(sweep.varied) < 2:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    # With a target, the evaluator explains low values whatever the direction of the study is.
    sign = -1.0 if sweep.larger[0] else 1.0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The best tenth ties with all others: the shares would be equal and mean nothing.
            warnings.filterwarnings("error", message="Target and region quantiles")
            shares = get_param_importances(
                sweep.study,
                evaluator=PedAnovaImportanceEvaluator(),
                params=[k for k in sweep.varied if all(k in t.params for t in sweep.complete)],
                target=lambda trial: sign * trial.values[0],
            )
    except (ValueError, RuntimeError, UserWarning):
        return {}
    return {key: share for key, share in shares.items() if share == share}
