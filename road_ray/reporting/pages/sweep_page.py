"""Page of a sweep: the best trials, figures, and a sortable table of all trials; a test of whether
the values of its trials differ by more than chance.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from math import isfinite, sqrt

from road_ray.reporting.pages.page import (
    NOTHING,
    Block,
    Cell,
    Figures,
    Folded,
    Page,
    Prose,
    Section,
    Table,
    Value,
    Verdict,
    cell,
    filled,
)
from road_ray.reporting.pages.run_page import clock
from road_ray.reporting.records.sweep_record import Sweep, Trial
from road_ray.reporting.sweep_plots import SweepPlots
from road_ray.system.files import read_json

_SURE = 0.05
_SHARES = ("accuracy", "exact", "f1", "entity_f1")  # percentages of rows, or nearly so


def tie(sweep: Sweep) -> str:
    """Return a sentence if the complete trials of one metric do not differ by more than noise, or
    an empty one.

    The trials tie if the whole range of their values is no wider than that of as many equal models
    (studentised range, 95%). The error of a value is its deviation over seeds or, with one seed,
    the standard error of a percentage of the evaluated rows.
    """
    values = [trial.values[0] for trial in sweep.complete]
    if len(values) < 2 or len(sweep.metrics) > 1:
        return ""
    low, high = min(values), max(values)
    span = f"{len(values)} trials between {low:.4g} and {high:.4g}"
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return f"No difference: {len(values)} trials have the same value, {high:.4g}."
    seeds = sweep.settings.get("seeds", 1)
    if isinstance(seeds, int) and seeds > 1:
        error, freedom = _error_over_seeds(sweep, seeds), len(values) * (seeds - 1)
        source = f"over {seeds} seeds"
    else:
        error, freedom, source = _standard_error(sweep, values[0]), 10**6, "on the evaluated rows"
    if error is None:
        return ""
    from scipy.stats import studentized_range

    if high - low > studentized_range.ppf(1 - _SURE, len(values), freedom) * error:
        return ""
    return (
        f"No difference beyond noise: {span}; {source} one value is uncertain by ± {error:.2g}. "
        "More rows or more seeds a trial (seeds: 3) can tell them apart."
    )


def _error_over_seeds(sweep: Sweep, seeds: int) -> float | None:
    """Return the standard error of a mean over seeds, from the deviations of all trials; None if
    one is unknown.
    """
    known = [trial.deviations[0] for trial in sweep.complete if trial.deviations]
    deviations = [float(d) for d in known if d is not None and isfinite(d)]
    if len(deviations) < len(sweep.complete):
        return None
    return sqrt(sum(deviation**2 for deviation in deviations) / len(deviations) / seeds)


def _standard_error(sweep: Sweep, value: float) -> float | None:
    """Return the standard error of a value, a percentage of the rows that the trials evaluate; None
    if unknown.
    """
    pieces = sweep.metrics[0].split("/")
    name = pieces[-1].removeprefix("at_threshold_").removeprefix("best_")
    if len(pieces) != 3 or pieces[0] != "eval" or name not in _SHARES:
        return None
    records = sweep.directory.glob(f"trials/**/predictions/{pieces[1]}/diagnostics.json")
    path = next(records, None)
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
        Section("Figures", [Figures(drawn.all())], _ABOUT_FIGURES),
        Section("Trials", [_table(sweep)], _ABOUT_TRIALS),
        Section("Failures", [_failures(sweep)]),
        Section("Set-up", [Folded("sweep", settings)] if sweep.settings else []),
    ]
    aims = " and ".join(
        f"{'highest' if up else 'lowest'} {metric}"
        for metric, up in zip(sweep.metrics, sweep.larger, strict=True)
    )
    keys = "one key" if len(sweep.params) == 1 else f"{len(sweep.params)} keys"
    about = f"Search for the {aims} over {keys}."
    return Page(sweep.name, about, "road sweep", _tiles(sweep, tied), filled(sections))


def _tiles(sweep: Sweep, tied: str) -> list[tuple[str, str, str]]:
    states = Counter(trial.state for trial in sweep.trials)
    others = [f"{count:,} {state}" for state, count in states.items() if state != "complete"]
    remark = ", ".join([f"{states['complete']:,} complete", *others])
    tiles = [("trials", f"{len(sweep.trials):,}", remark)]
    if sweep.best and len(sweep.metrics) == 1:
        best = sweep.best[0]
        remark = "no difference between the trials" if tied else f"trial {best.number}"
        name = sweep.metrics[0].removeprefix("eval/").replace("/", " ")
        tiles.append((f"best {name}", _value(best, 0), remark))
    elif sweep.best:
        remark = "no trial is better in all metrics"
        tiles.append(("on the Pareto front", str(len(sweep.best)), remark))
    if spent := sum(trial.seconds or 0.0 for trial in sweep.trials):
        tiles.append(("time in trials", clock(spent), "sum over trials"))
    return tiles


def _value(trial: Trial, which: int) -> str:
    """Return a value with its deviation over seeds, if there are several: ``61.25 ± 0.40``."""
    text = cell(trial.values[which]).text
    deviation = trial.deviations[which] if which < len(trial.deviations) else None
    return text if deviation is None else f"{text} ± {cell(deviation).text}"


def _best(sweep: Sweep, tied: str) -> list[Block]:
    if not sweep.best:
        return [Prose(["No trial is complete yet."])]
    chosen, note = sorted(sweep.best, key=lambda t: t.values[0])[:20], ""
    if len(sweep.metrics) == 1:
        ranked = sorted(sweep.complete, key=lambda t: t.values[0], reverse=sweep.larger[0])
        chosen = ranked[:5]
        if len(ranked) > 3:
            note = "The best of many trials is partly luck. Run it again with other seeds "
            note += "before you compare it with other results."
    rows: list[Sequence[Value | Cell]] = [
        [
            Cell(str(trial.number)),
            *(Cell(_value(trial, n), v, n == 0 and not tied) for n, v in enumerate(trial.values)),
            *(trial.params.get(key) for key in sweep.params),
        ]
        for trial in chosen
    ]
    table = Table(["trial", *sweep.metrics, *sweep.params], rows, note=note)
    return [Verdict([(tied, "plain")]), table] if tied else [table]


def _table(sweep: Sweep) -> Table:
    rows = []
    for trial in sweep.trials:
        values = [Cell(_value(trial, n), v) for n, v in enumerate(trial.values)]
        values += [NOTHING] * (len(sweep.metrics) - len(values))
        seconds = None if trial.seconds is None else Cell(clock(trial.seconds), trial.seconds)
        params = [trial.params.get(key) for key in sweep.params]
        rows.append([trial.number, trial.state, *values, *params, seconds])
    names = ["trial", "state", *sweep.metrics, *sweep.params, "time"]
    return Table(names, rows, live=True, trials=[trial.number for trial in sweep.trials])


def _failures(sweep: Sweep) -> Table:
    rows: list[Sequence[Value | Cell]] = []
    for trial in sweep.trials:
        reason = str(trial.attributes.get("reason") or "")
        if trial.state == "failed" or (reason and trial.state != "pruned"):
            params = ", ".join(f"{k}={cell(v).text}" for k, v in trial.params.items())
            rows.append([trial.number, trial.state, reason.partition("\n")[0] or None, params])
    return Table(["trial", "state", "reason", "parameters"], rows)
