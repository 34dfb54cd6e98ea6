"""Figures of a sweep: history, importance, parallel coordinates, slices, contour, heat map, Pareto
front, learning curves.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from road_ray.reporting.plots.chart import Axis, Cell, Chart, Dot, Figure, Intervals, Line, Parallel
from road_ray.reporting.plots.scales import shades, short
from road_ray.reporting.records.sweep_record import Sweep, Trial
from road_ray.reporting.sweep_noise import tie

_log = logging.getLogger(__name__)
_MOST_SLICES, _MOST_AXES = 12, 8
_W, _T = "weighting.wrong", "distillation.temperature"


@dataclass(frozen=True)
class SweepFigures:
    """Figures of one sweep for its ``which``-th metric."""

    sweep: Sweep
    which: int = 0

    @property
    def metric(self) -> str:
        """Return the name of the metric."""
        return self.sweep.metrics[self.which]

    @property
    def larger(self) -> bool:
        """Return True if a larger value is better."""
        return self.sweep.larger[self.which]

    @cached_property
    def tied(self) -> bool:
        """Return True if the trials do not differ by more than noise: nothing is ranked then."""
        return len(self.sweep.metrics) == 1 and bool(tie(self.sweep, self.which))

    @cached_property
    def shade(self) -> dict[int, float | None]:
        """Return the rank from worst (0) to best (1) of each complete trial, by number; None for
        trials that tie.
        """
        judged = self.sweep.judged
        if self.tied:
            return {trial.number: None for trial in judged}
        ranks = shades([t.values[self.which] for t in judged], larger_is_better=self.larger)
        return {trial.number: shade for trial, shade in zip(judged, ranks, strict=True)}

    @cached_property
    def importances(self) -> dict[str, float]:
        """Return keys with their importance, the most important first; none for a tie."""
        return {} if self.tied else importances(self.sweep, self.which)

    def history(self) -> Chart:
        """Return the value of each trial and the best value so far."""
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
            Axis("trial", whole=True),
            Axis(),
            lines=[Line([*steps, *best[-1:]], "best so far", 1)],
            dots=[self._dot(t, t.number, t.values[self.which]) for t in self.sweep.judged],
            note="The line is the best so far." if best else "No trial is complete.",
        )

    def importance(self) -> Intervals | None:
        """Return the importance of each key, or None with too few trials."""
        if not self.importances:
            return None
        rows = [(key, 100 * share, None, ()) for key, share in self.importances.items()]
        note = "How far the values of a key differ between the best tenth of the trials and all"
        note += " trials, as a share of the sum over the keys (PED-ANOVA)."
        return Intervals("Importance (%)", rows, note, zero=True)

    def slices(self) -> list[Chart]:
        """Return a chart of the value over each key."""
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
        """Return complete trials as lines over keys and value, the worst first."""
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
        return Parallel("Parallel coordinates", axes, rows, "Darker is better.")

    def axis(self, key: str, trials: Sequence[Trial]) -> tuple[Axis, list[float]]:
        """Return an axis for the values of a key and the position of each trial on it."""
        values = [trial.params[key] for trial in trials]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            log = key in self.sweep.logs and all(v > 0 for v in values)
            return Axis(key, log), [float(v) for v in values]
        names = sorted({str(value) for value in values})
        return Axis(key, names=tuple(names)), [float(names.index(str(v))) for v in values]

    def _dot(self, trial: Trial, x: float, y: float) -> Dot:
        return Dot(float(x), float(y), self.shade[trial.number], trial.number)

    def curves(self) -> Chart | None:
        """Return the metric during every trial; curves of stopped trials end early."""
        drawn = [trial for trial in self.sweep.trials if len(trial.curve) > 1]
        if not drawn:
            return None
        ordered = sorted(drawn, key=lambda t: self.shade.get(t.number) or -1.0)
        best = set() if self.tied else {trial.number for trial in self.sweep.best}
        lines = [
            Line(
                t.curve,
                "",
                1,
                t.number,
                None if t.number in best else self.shade.get(t.number, 0.0) or 0.0,
            )
            for t in ordered
        ]
        note = f"{len(drawn)} trials; stopped trials end early."
        note += "" if self.tied else " The best one is bold."
        return Chart(
            f"During the trials: {self.metric}",
            Axis("step", whole=True),
            Axis(),
            lines=lines,
            note=note,
        )

    def surfaces(self) -> list[Chart]:
        """Return the value over two keys: W and temperature if both were sampled, and the two most
        important ones.
        """
        given = {
            key: [t for t in self.sweep.trials if key in t.params] for key in self.sweep.varied
        }
        numbers = [key for key, trials in given.items() if not self.axis(key, trials)[0].names]
        pairs = [(_T, _W)] if _T in numbers and _W in numbers else []
        important = [key for key in self.importances if key in numbers][:2]
        if len(important) == 2 and {*important} != {_W, _T}:
            pairs.append((important[0], important[1]))
        elif not pairs and len(numbers) > 1:
            pairs.append((numbers[0], numbers[1]))
        return [chart for x, y in pairs if (chart := self._surface(x, y))]

    def _surface(self, x: str, y: str) -> Chart | None:
        """Return a heat map if the trials form a grid, else a dot for each trial."""
        known = [t for t in self.sweep.judged if x in t.params and y in t.params]
        if len(known) < 4:
            return None
        (across, xs), (up, ys) = self.axis(x, known), self.axis(y, known)
        values = [trial.values[self.which] for trial in known]
        columns, rows = sorted(set(xs)), sorted(set(ys))
        if len(columns) * len(rows) <= max(2 * len(known), 12) and len(columns) * len(rows) <= 150:
            return self._grid(x, y, columns, rows, list(zip(xs, ys, values, strict=True)))
        # A dot for each trial: between them nothing is known.
        dots = [self._dot(trial, a, b) for a, b, trial in zip(xs, ys, known, strict=True)]
        return Chart(_pair(x, y), across, up, dots=dots, note="Darker is better.")

    def _grid(
        self,
        x: str,
        y: str,
        columns: list[float],
        rows: list[float],
        trials: list[tuple[float, float, float]],
    ) -> Chart:
        """Return a heat map with the mean value printed in each cell."""
        sums: dict[tuple[int, int], list[float]] = {}
        for a, b, value in trials:
            sums.setdefault((columns.index(a), rows.index(b)), []).append(value)
        means = {place: sum(values) / len(values) for place, values in sums.items()}
        shade = shades(list(means.values()), larger_is_better=self.larger)
        cells = [
            Cell((c - 0.5, r - 0.5), (c + 0.5, r + 0.5), s or 0.0, short(value))
            for ((c, r), value), s in zip(means.items(), shade, strict=True)
        ]
        labels = (tuple(map(short, columns)), tuple(map(short, rows)))
        across, up = Axis(x, names=labels[0]), Axis(y, names=labels[1])
        note = "Mean value of the trials in each cell; darker is better."
        return Chart(_pair(x, y), across, up, cells, note=note)

    def front(self) -> Chart | None:
        """Return the first two metrics with their Pareto front, or None for one metric."""
        if len(self.sweep.metrics) < 2:
            return None
        best = sorted((trial.values[0], trial.values[1]) for trial in self.sweep.best)
        dots = [
            Dot(t.values[0], t.values[1], self.shade[t.number], t.number) for t in self.sweep.judged
        ]
        across, up = self.sweep.metrics[:2]
        spans = [[t.values[n] for t in self.sweep.judged] for n in (0, 1)]
        log = [bool(v) and min(v) > 0 and max(v) / min(v) > 50 for v in spans]
        return Chart(
            "Pareto front",
            Axis(across, log[0]),
            Axis(up, log[1]),
            lines=[Line(best, "front", 1)],
            dots=dots,
            note=f"{len(best)} trials on the front; no trial is better in every metric.",
        )

    def all(self) -> list[Figure]:
        """Return every figure that applies to this sweep."""
        first = [self.front(), self.history(), self.importance(), self.curves()]
        chosen: list[Figure] = [figure for figure in first if figure is not None]
        if len(self.sweep.judged) > 1 and self.sweep.varied:
            if not self.tied:
                chosen += [*self.surfaces(), self.parallel()]
            chosen += self.slices()
        return chosen

    def absent(self) -> str:
        """Return which ranking figures are left out and why, or an empty string."""
        complete, varied = len(self.sweep.judged), self.sweep.varied
        if self.tied:
            return "No importance, heat map and parallel coordinates: the trials tie."
        if complete < 2 or not varied:
            why = "a single key value" if not varied else f"{complete} complete trial(s)"
            return f"No importance, heat map, parallel coordinates and slices: {why}."
        reasons = []
        if not self.importances:
            few = complete < 4 or len(varied) < 2
            why = "it needs four complete trials and two keys" if few else "it cannot be estimated"
            reasons.append(f"No importance: {why}.")
        if not self.surfaces():
            reasons.append("No heat map: it needs four complete trials and two keys of numbers.")
        return " ".join(reasons)


def _pair(x: str, y: str) -> str:
    """Return both keys without their sections."""
    return f"{x.rsplit('.', 1)[-1]} \N{MULTIPLICATION SIGN} {y.rsplit('.', 1)[-1]}"


def importances(sweep: Sweep, which: int = 0) -> dict[str, float]:
    """Return the importance of each key, the most important first; empty if it cannot be estimated.

    The importance of a key for being among the best tenth of the trials, as a share of the sum
    over the keys. PED-ANOVA (Watanabe et al. 2023) takes a fraction of a second for a thousand
    trials; fANOVA takes minutes.
    """
    if sweep.study is None or len(sweep.judged) < 4 or len(sweep.varied) < 2:
        return {}
    import warnings

    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    # With a target, the evaluator explains low values whatever the direction of the study is.
    sign = -1.0 if sweep.larger[which] else 1.0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The best tenth ties with all others: the shares would be equal and mean nothing.
            warnings.filterwarnings("error", message="Target and region quantiles")
            shares = get_param_importances(
                sweep.study,
                evaluator=PedAnovaImportanceEvaluator(),
                params=[k for k in sweep.varied if all(k in t.params for t in sweep.judged)],
                target=lambda trial: sign * trial.values[which],
            )
    except (ValueError, RuntimeError, UserWarning) as error:
        _log.info("importance left out: %s", error)
        return {}
    return {key: share for key, share in shares.items() if share == share}
