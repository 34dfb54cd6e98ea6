"""What a sweep looks like: history, importance, parallel coordinates, slices, contour, heat map,
front of the best, curves.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from road_ray.reporting.plots.chart import Axis, Bars, Cell, Chart, Dot, Figure, Line, Parallel
from road_ray.reporting.plots.scales import shades, short
from road_ray.reporting.sweep_record import Sweep, Trial

_log = logging.getLogger(__name__)
_FIELDS = 28  # of a contour, each way
_MOST_SLICES, _MOST_AXES = 12, 8
_W, _T = "weighting.wrong", "distillation.temperature"


@dataclass(frozen=True)
class SweepFigures:
    """Figures of one sweep, judged by its ``which``-th metric."""

    sweep: Sweep
    which: int = 0

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self.sweep.metrics[self.which]

    @property
    def larger(self) -> bool:
        """Whether a larger value is a better one."""
        return self.sweep.larger[self.which]

    @cached_property
    def shade(self) -> dict[int, float | None]:
        """From worst (0) to best (1), by the number of each judged trial."""
        judged = self.sweep.judged
        found = shades([t.values[self.which] for t in judged], larger_is_better=self.larger)
        return {trial.number: shade for trial, shade in zip(judged, found, strict=True)}

    @cached_property
    def ranked(self) -> dict[str, float]:
        """Keys by their importance."""
        return importances(self.sweep, self.which)

    def history(self) -> Chart:
        """Value by trial, and the best so far."""
        best: list[tuple[float, float]] = []
        pick = max if self.larger else min
        for trial in self.sweep.judged:
            value = trial.values[self.which]
            best.append((trial.number, pick(value, best[-1][1]) if best else value))
        last = max((trial.number for trial in self.sweep.trials), default=0)
        if best:
            best.append((float(last), best[-1][1]))
        steps = [p for a, b in pairwise(best) for p in (a, (b[0], a[1]))]
        return Chart(
            f"History: {self.metric}",
            Axis("trial"),
            Axis(),
            lines=[Line([*steps, *best[-1:]], "best so far", 1)],
            dots=[self._dot(t, t.number, t.values[self.which]) for t in self.sweep.judged],
            note="The line is the best so far." if best else "No trial has come to its end.",
        )

    def importance(self) -> Bars | None:
        """How much each key explains of the value; None where too little is known."""
        found = self.ranked
        if not found:
            return None
        rows = [(key, 100 * share) for key, share in found.items()]
        note = "Share of the differences in value that a key explains, by Optuna's estimate."
        return Bars("Importance", rows, "%", note)

    def slices(self) -> list[Chart]:
        """Value by each key alone."""
        charts = []
        for key in self.sweep.varied[:_MOST_SLICES]:
            known = [trial for trial in self.sweep.judged if key in trial.params]
            axis, places = self.axis(key, known)
            dots = [
                self._dot(trial, place, trial.values[self.which])
                for trial, place in zip(known, places, strict=True)
            ]
            charts.append(Chart(key, axis, Axis(self.metric), dots=dots))
        return charts

    def parallel(self) -> Parallel:
        """Every judged trial as one line over the keys and the value, the worst first."""
        judged = sorted(self.sweep.judged, key=lambda t: self.shade[t.number] or 0.0)
        axes, columns = [], []
        for key in self.sweep.varied[: _MOST_AXES - 1]:
            known = [trial for trial in judged if key in trial.params]
            axis, places = self.axis(key, known)
            at = {trial.number: place for trial, place in zip(known, places, strict=True)}
            axes.append(Axis(key.rsplit(".", 1)[-1], axis.log, axis.names))
            columns.append([at.get(trial.number) for trial in judged])
        axes.append(Axis(self.metric.rsplit("/", 1)[-1]))
        columns.append([trial.values[self.which] for trial in judged])
        rows = [
            (trial.number, self.shade[trial.number], values)
            for trial, values in zip(judged, zip(*columns, strict=True), strict=True)
        ]
        return Parallel("Parallel coordinates", axes, rows, "The stronger the colour, the better.")

    def axis(self, key: str, trials: Sequence[Trial]) -> tuple[Axis, list[float]]:
        """An axis for the values of a key, and where each trial is on it."""
        values = [trial.params[key] for trial in trials]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            log = key in self.sweep.logs and all(v > 0 for v in values)
            return Axis(key, log), [float(v) for v in values]
        names = sorted({str(value) for value in values})
        return Axis(key, names=tuple(names)), [float(names.index(str(v))) for v in values]

    def _dot(self, trial: Trial, x: float, y: float) -> Dot:
        return Dot(float(x), float(y), self.shade[trial.number], trial.number)

    def curves(self) -> Chart | None:
        """The metric during every trial; those that were stopped end early."""
        drawn = [trial for trial in self.sweep.trials if len(trial.curve) > 1]
        if not drawn:
            return None
        ordered = sorted(drawn, key=lambda t: self.shade.get(t.number) or -1.0)
        best = {trial.number for trial in self.sweep.best}
        lines = [
            Line(
                t.curve,
                "",
                1,
                t.number,
                None if t.number in best else self.shade.get(t.number, 0.0),
            )
            for t in ordered
        ]
        note = f"{len(drawn)} trials, the best one heavy; those that were stopped end early."
        return Chart(
            f"During the trials: {self.metric}", Axis("step"), Axis(), lines=lines, note=note
        )

    def surfaces(self) -> list[Chart]:
        """Value over two keys: W and temperature where both were drawn, and the two that matter
        most.
        """
        numbers = [key for key in self.sweep.varied if not self._named(key)]
        pairs = [(_T, _W)] if _T in numbers and _W in numbers else []
        ranked = [key for key in self.ranked if key in numbers]
        if len(ranked) > 1 and {ranked[0], ranked[1]} != {_W, _T}:
            pairs.append((ranked[0], ranked[1]))
        elif not pairs and len(numbers) > 1:
            pairs.append((numbers[0], numbers[1]))
        return [chart for x, y in pairs if (chart := self._surface(x, y))]

    def _named(self, key: str) -> bool:
        return bool(self.axis(key, [t for t in self.sweep.trials if key in t.params])[0].names)

    def _surface(self, x: str, y: str) -> Chart | None:
        """Cells from what was drawn: as it is on a grid, smoothed in between elsewhere."""
        known = [t for t in self.sweep.judged if x in t.params and y in t.params]
        if len(known) < 4:
            return None
        (across, xs), (up, ys) = self.axis(x, known), self.axis(y, known)
        values = [trial.values[self.which] for trial in known]
        columns, rows = sorted(set(xs)), sorted(set(ys))
        if len(columns) * len(rows) <= max(2 * len(known), 12) and len(columns) * len(rows) <= 150:
            return self._grid(x, y, columns, rows, list(zip(xs, ys, values, strict=True)))
        cells = _field(across, up, np.array([xs, ys]).T, np.array(values), larger=self.larger)
        dots = [
            Dot(a, b, None, trial.number, hollow=True)
            for a, b, trial in zip(xs, ys, known, strict=True)
        ]
        note = "Between the trials (circles) the value is estimated; the stronger, the better."
        return Chart(_pair(x, y), across, up, cells, dots=dots, note=note)

    def _grid(
        self, x: str, y: str, columns: list[float], rows: list[float], seen: list[Any]
    ) -> Chart:
        """A heat map with the mean value written into each cell."""
        sums: dict[tuple[int, int], list[float]] = {}
        for a, b, value in seen:
            sums.setdefault((columns.index(a), rows.index(b)), []).append(value)
        means = {place: sum(found) / len(found) for place, found in sums.items()}
        shade = shades(list(means.values()), larger_is_better=self.larger)
        cells = [
            Cell((c - 0.5, r - 0.5), (c + 0.5, r + 0.5), s or 0.0, short(value))
            for ((c, r), value), s in zip(means.items(), shade, strict=True)
        ]
        named = (tuple(map(short, columns)), tuple(map(short, rows)))
        across, up = Axis(x, names=named[0]), Axis(y, names=named[1])
        note = "Mean value of the trials in each cell; the stronger, the better."
        return Chart(_pair(x, y), across, up, cells, note=note)

    def front(self) -> Chart | None:
        """One metric against another, with the front that no trial beats; None for one metric."""
        if len(self.sweep.metrics) < 2:
            return None
        best = sorted((trial.values[0], trial.values[1]) for trial in self.sweep.best)
        dots = [
            Dot(t.values[0], t.values[1], self.shade[t.number], t.number) for t in self.sweep.judged
        ]
        across, up = self.sweep.metrics[:2]
        log = [_wide([t.values[n] for t in self.sweep.judged]) for n in (0, 1)]
        return Chart(
            "Pareto front",
            Axis(across, log[0]),
            Axis(up, log[1]),
            lines=[Line(best, "front", 1)],
            dots=dots,
            note=f"{len(best)} trials on the front: none is better in every metric.",
        )

    def all(self) -> list[Figure]:
        """Every figure that this sweep has something for."""
        first = [self.front(), self.history(), self.importance(), self.curves()]
        chosen: list[Figure] = [figure for figure in first if figure is not None]
        if len(self.sweep.judged) > 1 and self.sweep.varied:
            chosen += [*self.surfaces(), self.parallel(), *self.slices()]
        return chosen


def _pair(x: str, y: str) -> str:
    """Both keys without their sections."""
    return f"{x.rsplit('.', 1)[-1]} \N{MULTIPLICATION SIGN} {y.rsplit('.', 1)[-1]}"


def _wide(values: Sequence[float]) -> bool:
    """Whether values are better seen on a logarithmic scale."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > 50


def _field(across: Axis, up: Axis, places: Any, values: Any, *, larger: bool) -> list[Cell]:
    """Cells over the range of the trials, each with the mean of the values near it.

    Weighted by a Gaussian whose width follows Scott's rule: smooth, never beyond what was seen, and
    defined for any scatter of points.
    """
    scaled = np.column_stack(
        [
            np.log10(places[:, n]) if axis.log else places[:, n]
            for n, axis in enumerate((across, up))
        ]
    )
    low, high = scaled.min(0), scaled.max(0)
    span = np.where(high > low, high - low, 1.0)
    edges = [np.linspace(low[n], low[n] + span[n], _FIELDS + 1) for n in (0, 1)]
    middle = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    grid = np.stack(np.meshgrid(*middle, indexing="ij"), -1).reshape(-1, 2)
    gaps = (((grid[:, None] - scaled[None]) / span) ** 2).sum(-1)
    width = 0.29 * len(values) ** (-1 / 6)  # 0.29: deviation of points spread evenly over 0 to 1
    weight = np.exp(-gaps / (2 * width**2)) + 1e-9
    mean = (weight * values).sum(1) / weight.sum(1)
    order = mean.argsort().argsort() / max(len(mean) - 1, 1)
    shade = order if larger else 1 - order
    back = [10**edge if axis.log else edge for edge, axis in zip(edges, (across, up), strict=True)]
    return [
        Cell(
            (float(back[0][i]), float(back[1][j])),
            (float(back[0][i + 1]), float(back[1][j + 1])),
            float(shade[i * _FIELDS + j]),
        )
        for i in range(_FIELDS)
        for j in range(_FIELDS)
    ]


def importances(sweep: Sweep, which: int = 0) -> dict[str, float]:
    """Share by key, the most important first; empty where Optuna cannot tell.

    PED-ANOVA (Watanabe et al. 2023): a fraction of a second for a thousand trials, where fANOVA
    takes minutes.
    """
    if sweep.study is None or len(sweep.judged) < 4 or len(sweep.varied) < 2:
        return {}
    import warnings

    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_param_importances(
                sweep.study,
                evaluator=PedAnovaImportanceEvaluator(),
                params=[k for k in sweep.varied if all(k in t.params for t in sweep.judged)],
                target=lambda trial: trial.values[which],
            )
    except (ValueError, RuntimeError) as error:
        _log.info("importance left out: %s", error)
        return {}
    return {key: share for key, share in found.items() if share == share}
