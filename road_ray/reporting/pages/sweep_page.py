"""Page of a sweep: the best trials, figures (history, importance, two keys, slices, Pareto front,
learning curves), and a sortable table of all trials.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import accumulate
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

if TYPE_CHECKING:
    from matplotlib.axis import XAxis, YAxis
    from optuna.trial import FrozenTrial

_ABOUT_FIGURES = "Hover over a trial to highlight it in all figures; click to go to its row."
_ABOUT_TRIALS = (
    "Click a heading to sort. Filter by words, or by column: “complete trial<5” shows complete "
    "trials with a number below 5, here and in the figures."
)


def sweep_page(sweep: Sweep) -> Page:
    """Return the page of a sweep."""
    settings = json.dumps(sweep.settings, indent=2, default=str)
    sections = [
        Section("Best", _best(sweep)),
        Section("Figures", [figures(sweep)], _ABOUT_FIGURES),
        Section("Trials", [_table(sweep)], _ABOUT_TRIALS),
        Section("Failures", [_failures(sweep)]),
        Section("Set-up", [Folded("sweep", settings)] if sweep.settings else []),
    ]
    aims = " and ".join(
        f"{'highest' if up else 'lowest'} {metric}"
        for metric, up in zip(sweep.metrics, sweep.larger, strict=True)
    )
    about = f"Search for the {aims} over {counted(len(sweep.params), 'key')}."
    return Page(sweep.study.study_name, about, "road sweep", _tiles(sweep), filled(sections))


def _tiles(sweep: Sweep) -> list[tuple[str, str, str]]:
    states = Counter(complete=0)
    states.update(map(_state, sweep.trials))
    remark = ", ".join(f"{count:,} {state}" for state, count in states.items())
    tiles = [("trials", f"{len(sweep.trials):,}", remark)]
    if sweep.best and len(sweep.metrics) == 1:
        best = sweep.best[0]
        remark = "no difference between the trials" if sweep.tie else f"trial {best.number}"
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


def _best(sweep: Sweep) -> list[Block]:
    if not sweep.best:
        return ["No trial is complete yet."]
    chosen, note = sorted(sweep.best, key=lambda t: t.values[0])[:20], ""
    if len(sweep.metrics) == 1:
        ranked = sorted(sweep.complete, key=lambda t: t.values[0], reverse=sweep.larger[0])
        chosen = ranked[:5]
        if len(ranked) > 3:
            note = "The best of many trials is partly luck. Run it again with other seeds "
            note += "before you compare it with other results."
    rows = [[str(t.number), *_drawn_and_scored(sweep, t, strong=not sweep.tie)] for t in chosen]
    table = Table(["trial", *sweep.metrics, *sweep.params], rows, note=note)
    return [[Cell(sweep.tie)], table] if sweep.tie else [table]


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
    drawn = (trial.params.get(key) for key in sweep.params)
    return [*values, *missing, *(cell(x, ".3g" if isinstance(x, float) else "") for x in drawn)]


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


def figures(sweep: Sweep) -> list[Plot]:
    """Return every plot that applies to this sweep. Nothing is ranked if its trials tie."""
    plots = [front(sweep), history(sweep), importance(sweep), curves(sweep)]
    if len(sweep.complete) > 1 and sweep.varied:
        plots += [] if sweep.tie else [surface(sweep)]
        plots += [_scatter(sweep, key, key) for key in sweep.varied[:_MOST_SLICES]]
    return [plot for plot in plots if plot is not None]


def history(sweep: Sweep) -> Plot:
    """Return the value of each trial and the best value so far."""
    complete = sweep.complete
    note = "The line is the best so far." if complete else "No trial is complete."
    plot = _scatter(sweep, f"History: {sweep.metrics[0]}", "trial", note=note)
    plot.axes.set_title("", loc="left")  # the metric is in the title above
    best = [*accumulate((t.values[0] for t in complete), max if sweep.larger[0] else min)]
    if best:
        last = max(trial.number for trial in sweep.trials)
        steps = [*(trial.number for trial in complete), last]
        plot.axes.step(steps, [*best, best[-1]], where="post", color=SERIES[1])
    return plot


def importance(sweep: Sweep) -> Plot | None:
    """Return the importance of each key, or None with too few trials."""
    if not sweep.importances:
        return None
    rows = [(key, 100 * share, None, ()) for key, share in sweep.importances.items()]
    note = "How far the values of a key differ between the best tenth of the trials and all"
    note += " trials, as a share of the sum over the keys (PED-ANOVA)."
    return intervals("Importance (%)", rows, note, zero=True)


def curves(sweep: Sweep) -> Plot | None:
    """Return the metric during every trial; curves of stopped trials end early."""
    from matplotlib.collections import LineCollection

    drawn = [trial for trial in sweep.trials if len(trial.intermediate_values) > 1]
    if not drawn:
        return None
    drawn.sort(key=lambda trial: sweep.ranks.get(trial.number) or -1.0)
    note = f"{len(drawn)} trials; stopped trials end early."
    note += "" if sweep.tie else " The best one is bold."
    plot = new_plot(f"During the trials: {sweep.metrics[0]}", "step", note=note)
    best = set() if sweep.tie else {trial.number for trial in sweep.best}
    bold = [trial.number in best for trial in drawn]
    colors = rank_colors([sweep.ranks.get(trial.number, 0.0) for trial in drawn])
    lines = LineCollection(
        [sorted(trial.intermediate_values.items()) for trial in drawn],
        colors=[SERIES[1] if yes else color for yes, color in zip(bold, colors, strict=True)],
        linewidths=[2.2 if yes else 1.0 for yes in bold],
    )
    link_trials(lines, [trial.number for trial in drawn])
    plot.axes.add_collection(lines)
    plot.axes.autoscale_view()
    return plot


def surface(sweep: Sweep) -> Plot | None:
    """Return the trials over W and temperature if both were sampled, else over the two most
    important keys of numbers; between the dots nothing is known.
    """
    numbers = [
        key
        for key in dict.fromkeys([*sweep.importances, *sweep.varied])
        if all(_is_number(t.params[key]) for t in sweep.trials if key in t.params)
    ]
    if len(numbers) < 2:
        return None
    x, y = (_T, _W) if {_T, _W} <= {*numbers} else numbers[:2]
    title = " \N{MULTIPLICATION SIGN} ".join(key.rsplit(".", 1)[-1] for key in (x, y))
    return _scatter(sweep, title, x, y, "Bluer is better.")


def front(sweep: Sweep) -> Plot | None:
    """Return the first two metrics with their Pareto front, or None for one metric."""
    if len(sweep.metrics) < 2:
        return None
    note = f"{len(sweep.best)} trials on the front; no trial is better in every metric."
    plot = _scatter(sweep, "Pareto front", sweep.metrics[0], sweep.metrics[1], note)
    best = sorted((trial.values[0], trial.values[1]) for trial in sweep.best)
    plot.axes.plot(*zip(*best, strict=True), color=SERIES[1])
    return plot


def _scatter(sweep: Sweep, title: str, x: str, y: str = "", note: str = "") -> Plot:
    """Return a plot with a dot for each complete trial. An axis is a key, a metric (the first by
    default) or "trial", the number of the trial.
    """
    metrics, y = sweep.metrics, y or sweep.metrics[0]
    known: dict[int, dict[str, Any]] = {
        t.number: {"trial": t.number, **dict(zip(metrics, t.values, strict=True)), **t.params}
        for t in sweep.complete
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
        elif name in sweep.logs and all(value > 0 for value in values):
            logarithmic(axis, values)
        places.append(values)
    shade = rank_colors([sweep.ranks[number] for number in drawn])
    across, up = places
    dots = plot.axes.scatter(across, up, 36, shade, edgecolors="white", zorder=3)
    link_trials(dots, [*drawn])
    return plot


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
