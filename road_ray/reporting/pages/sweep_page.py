"""Page of a sweep: the best trials, figures (history, importance, two keys, slices, Pareto front,
learning curves), and a sortable table of all trials; a test of whether the values of its trials
differ by more than chance.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any

from road_ray.config.secrets import redact
from road_ray.errors import counted
from road_ray.reporting.pages.page import (
    Block,
    Cell,
    Folded,
    Page,
    Row,
    Section,
    Table,
    Value,
    cell,
    filled,
)
from road_ray.reporting.plots import (
    SERIES,
    Plot,
    intervals,
    link_trials,
    logarithmic,
    new_plot,
    rank_colors,
    short_label,
)
from road_ray.reporting.records.sweep_record import Sweep
from road_ray.reporting.text_tables import duration
from road_ray.system.files import read_json

if TYPE_CHECKING:
    from matplotlib.axis import XAxis, YAxis
    from optuna.trial import FrozenTrial

_SURE = 0.05
_SHARES = ("accuracy", "exact", "f1", "entity_f1")  # percentages of rows, or nearly so


def tie(sweep: Sweep) -> str:
    """Return a sentence if the complete trials of one metric do not differ by more than noise, or
    an empty one.

    The trials tie if the whole range of their values is no wider than that of as many equal models
    (studentised range, 95%). The error of a value is its deviation over seeds or, with one seed,
    the standard error of a percentage of the evaluated rows.
    """
    trials = sweep.complete
    values = [trial.values[0] for trial in trials]
    if len(values) < 2 or len(sweep.metrics) > 1:
        return ""
    low, high = min(values), max(values)
    span = f"{len(values)} trials between {low:.4g} and {high:.4g}"
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return f"No difference: {len(values)} trials have the same value, {high:.4g}."
    seeds = sweep.settings.get("seeds", 1)
    if isinstance(seeds, int) and seeds > 1:
        known = [d[0] for trial in trials if (d := trial.user_attrs.get("deviation"))]
        squares = [float(d) ** 2 for d in known if d is not None and isfinite(d)]
        error = sqrt(sum(squares) / len(values) / seeds) if len(squares) == len(values) else None
        freedom, source = len(values) * (seeds - 1), f"over {seeds} seeds"
    else:
        error, freedom, source = _standard_error(sweep, values[0]), 10**6, "on the evaluated rows"
    if error is None:  # a deviation, or the number of rows, is unknown
        return ""
    from scipy.stats import studentized_range

    if high - low > studentized_range.ppf(1 - _SURE, len(values), freedom) * error:
        return ""
    return (
        f"No difference beyond noise: {span}; {source} one value is uncertain by ± {error:.2g}. "
        "More rows or more seeds a trial (seeds: 3) can tell them apart."
    )


def _standard_error(sweep: Sweep, value: float) -> float | None:
    """Return the standard error of a value, a percentage of the rows that the trials evaluate; None
    if unknown.
    """
    pieces = sweep.metrics[0].split("/")
    name = pieces[-1].removeprefix("at_threshold_").removeprefix("best_")
    if len(pieces) != 3 or pieces[0] != "eval" or name not in _SHARES:
        return None
    path = next(sweep.directory.glob(f"trials/**/predictions/{pieces[1]}/diagnostics.json"), None)
    rows = None if path is None else read_json(path).get("rows")
    if not isinstance(rows, int) or rows < 1:
        return None
    share = min(max(value / 100, 1 / rows), 1 - 1 / rows) if rows > 1 else 0.5
    return 100 * sqrt(share * (1 - share) / rows)


_ABOUT_FIGURES = "Hover over a trial to highlight it in all figures; click to go to its row."
_ABOUT_TRIALS = (
    "Click a heading to sort. Filter by words, or by column: “complete trial<5” shows complete "
    "trials with a number below 5, here and in the figures."
)


def sweep_page(sweep: Sweep) -> Page:
    """Return the page of a sweep."""
    tied = tie(sweep)
    drawn = SweepPlots(sweep, tied=bool(tied))
    settings = json.dumps(sweep.settings, indent=2, default=str)
    sections = [
        Section("Best", _best(sweep, tied)),
        Section("Figures", [drawn.all()], _ABOUT_FIGURES),
        Section("Trials", [_table(sweep)], _ABOUT_TRIALS),
        Section("Failures", [_failures(sweep)]),
        Section("Set-up", [Folded("sweep", settings)] if sweep.settings else []),
    ]
    aims = " and ".join(
        f"{'highest' if up else 'lowest'} {metric}"
        for metric, up in zip(sweep.metrics, sweep.larger, strict=True)
    )
    about = f"Search for the {aims} over {counted(len(sweep.params), 'key')}."
    return Page(sweep.study.study_name, about, "road sweep", _tiles(sweep, tied), filled(sections))


def _tiles(sweep: Sweep, tied: str) -> list[tuple[str, str, str]]:
    states = Counter(complete=0)
    states.update(map(_state, sweep.trials))
    remark = ", ".join(f"{count:,} {state}" for state, count in states.items())
    tiles = [("trials", f"{len(sweep.trials):,}", remark)]
    if sweep.best and len(sweep.metrics) == 1:
        best = sweep.best[0]
        remark = "no difference between the trials" if tied else f"trial {best.number}"
        name = sweep.metrics[0].removeprefix("eval/").replace("/", " ")
        tiles.append((f"best {name}", _value(best, 0), remark))
    elif sweep.best:
        remark = "no trial is better in all metrics"
        tiles.append(("on the Pareto front", str(len(sweep.best)), remark))
    if spent := sum(trial.user_attrs.get("seconds", 0.0) for trial in sweep.trials):
        tiles.append(("time in trials", duration(spent), "sum over trials"))
    return tiles


def _state(trial: FrozenTrial) -> str:
    return "failed" if trial.state.name == "FAIL" else trial.state.name.lower()


def _value(trial: FrozenTrial, which: int) -> str:
    """Return a value with its deviation over seeds, if there are several: ``61.25 ± 0.40``."""
    text = cell(trial.values[which]).text
    deviation = next(iter(trial.user_attrs.get("deviation", ())[which : which + 1]), None)
    return text if deviation is None else f"{text} ± {cell(deviation).text}"


def _best(sweep: Sweep, tied: str) -> list[Block]:
    if not sweep.best:
        return ["No trial is complete yet."]
    chosen, note = sorted(sweep.best, key=lambda t: t.values[0])[:20], ""
    if len(sweep.metrics) == 1:
        ranked = sorted(sweep.complete, key=lambda t: t.values[0], reverse=sweep.larger[0])
        chosen = ranked[:5]
        if len(ranked) > 3:
            note = "The best of many trials is partly luck. Run it again with other seeds "
            note += "before you compare it with other results."
    rows = [[str(t.number), *_drawn_and_scored(sweep, t, strong=not tied)] for t in chosen]
    table = Table(["trial", *sweep.metrics, *sweep.params], rows, note=note)
    return [[Cell(tied)], table] if tied else [table]


def _table(sweep: Sweep) -> Table:
    rows = []
    for trial in sweep.trials:
        spent = trial.user_attrs.get("seconds")
        seconds = None if spent is None else Cell(duration(spent), spent)
        rows.append([trial.number, _state(trial), *_drawn_and_scored(sweep, trial), seconds])
    names = ["trial", "state", *sweep.metrics, *sweep.params, "time"]
    return Table(names, rows, live=True, trials=[trial.number for trial in sweep.trials])


def _drawn_and_scored(
    sweep: Sweep, trial: FrozenTrial, *, strong: bool = False
) -> list[Value | Cell]:
    """Return the values of a trial, the first in bold if ``strong``, and its parameters."""
    known = enumerate(trial.values or ())
    values = [Cell(_value(trial, n), value, strong and n == 0) for n, value in known]
    missing = [] if values else [None] * len(sweep.metrics)
    return [*values, *missing, *(trial.params.get(key) for key in sweep.params)]


def _failures(sweep: Sweep) -> Table:
    rows: list[Row] = []
    for trial in sweep.trials:
        if _state(trial) == "failed":
            reason = str(redact(trial.user_attrs).get("reason") or "").partition("\n")[0] or None
            params = ", ".join(f"{k}={cell(v).text}" for k, v in trial.params.items())
            rows.append([trial.number, reason, params])
    return Table(["trial", "reason", "parameters"], rows)


_MOST_SLICES = 12
_W, _T = "weighting.wrong", "distillation.temperature"


@dataclass(frozen=True)
class SweepPlots:
    """Plots of one sweep for its first metric. Nothing is ranked if the trials are ``tied``."""

    sweep: Sweep
    tied: bool = False

    @cached_property
    def shade(self) -> dict[int, float | None]:
        """Return the rank from worst (0) to best (1) of each complete trial, by number; None for
        trials that tie.

        With ranks, one diverged trial does not give all others a single colour. Equal values are
        all best.
        """
        complete = self.sweep.complete
        if self.tied:
            return {trial.number: None for trial in complete}
        values = sorted({trial.values[0] for trial in complete}, reverse=not self.sweep.larger[0])
        last = len(values) - 1
        return {t.number: values.index(t.values[0]) / last if last else 1.0 for t in complete}

    @cached_property
    def importances(self) -> dict[str, float]:
        """Return the importance of each key, the most important first; empty for a tie, or if it
        cannot be estimated.

        The importance of a key for being among the best tenth of the trials, as a share of the sum
        over the keys. PED-ANOVA (Watanabe et al. 2023) takes a fraction of a second for a thousand
        trials; fANOVA takes minutes.
        """
        sweep = self.sweep
        if self.tied or len(sweep.complete) < 4 or len(sweep.varied) < 2:
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

    def all(self) -> list[Plot]:
        """Return every plot that applies to this sweep."""
        first = [self.front(), self.history(), self.importance(), self.curves()]
        plots = [plot for plot in first if plot is not None]
        if len(self.sweep.complete) > 1 and self.sweep.varied:
            if not self.tied and (surface := self.surface()):
                plots.append(surface)
            plots += [self._scatter(key, key) for key in self.sweep.varied[:_MOST_SLICES]]
        return plots

    def history(self) -> Plot:
        """Return the value of each trial and the best value so far."""
        complete = self.sweep.complete
        note = "The line is the best so far." if complete else "No trial is complete."
        plot = self._scatter(f"History: {self.sweep.metrics[0]}", "trial", note=note)
        plot.axes.locator_params(axis="x", integer=True)
        plot.axes.set_title("", loc="left")  # the metric is in the title above
        best = [*accumulate((t.values[0] for t in complete), max if self.sweep.larger[0] else min)]
        if best:
            last = max(trial.number for trial in self.sweep.trials)
            steps = [*(trial.number for trial in complete), last]
            plot.axes.step(steps, [*best, best[-1]], where="post", color=SERIES[1])
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

        drawn = [trial for trial in self.sweep.trials if len(trial.intermediate_values) > 1]
        if not drawn:
            return None
        drawn.sort(key=lambda trial: self.shade.get(trial.number) or -1.0)
        note = f"{len(drawn)} trials; stopped trials end early."
        note += "" if self.tied else " The best one is bold."
        plot = new_plot(f"During the trials: {self.sweep.metrics[0]}", "step", note=note)
        best = set() if self.tied else {trial.number for trial in self.sweep.best}
        ranks = [self.shade.get(trial.number) or 0.0 for trial in drawn]
        lines = LineCollection(
            [sorted(trial.intermediate_values.items()) for trial in drawn],
            colors=[
                SERIES[1] if trial.number in best else color
                for trial, color in zip(drawn, rank_colors(ranks), strict=True)
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
        plot.axes.plot(*zip(*best, strict=True), color=SERIES[1])
        return plot

    def _scatter(self, title: str, x: str, y: str = "", note: str = "") -> Plot:
        """Return a plot with a dot for each complete trial. An axis is a key, a metric (the first
        by default) or "trial", the number of the trial.
        """
        metrics, y = self.sweep.metrics, y or self.sweep.metrics[0]
        known: dict[int, dict[str, Any]] = {
            t.number: {"trial": t.number, **dict(zip(metrics, t.values, strict=True)), **t.params}
            for t in self.sweep.complete
        }
        drawn = {number: of_trial for number, of_trial in known.items() if {x, y} <= {*of_trial}}
        plot, places = new_plot(title, x, y, note=note), []
        axes: list[tuple[str, XAxis | YAxis]] = [(x, plot.axes.xaxis), (y, plot.axes.yaxis)]
        for name, axis in axes:
            values = [of_trial[name] for of_trial in drawn.values()]
            if not all(map(_is_number, values)):
                names = sorted(set(map(str, values)))  # long ones may begin alike
                axis.set_ticks(range(len(names)), [short_label(name, 16) for name in names])
                values = [names.index(str(value)) for value in values]
            elif name in self.sweep.logs and all(value > 0 for value in values):
                logarithmic(axis, values)
            places.append(values)
        shade = rank_colors([self.shade[number] for number in drawn])
        across, up = places
        dots = plot.axes.scatter(across, up, 36, shade, edgecolors="white", zorder=3)
        link_trials(dots, [*drawn])
        return plot


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
