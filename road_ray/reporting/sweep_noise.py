"""Noise of a sweep: a test of whether the values of its trials differ by more than chance."""

from __future__ import annotations

from math import isfinite, sqrt

from road_ray.errors import RoadError
from road_ray.reporting.records.run_record import is_run, runs_below
from road_ray.reporting.records.sweep_record import Sweep, Trial, trial_directory
from road_ray.system.json_file import read_json

_SURE = 0.05
_SHARES = ("accuracy", "exact", "f1", "entity_f1")  # percentages of rows, or nearly so


def tie(sweep: Sweep, which: int = 0) -> str:
    """Return a sentence if the complete trials do not differ by more than noise, or an empty one.

    Noise is the deviation over seeds, by an analysis of variance. With one seed it is the standard
    error of a percentage of the judged rows, and the trials tie if the whole range of their values
    is no wider than that of as many equal models (studentised range, 95%).
    """
    trials = sweep.judged
    values = [trial.values[which] for trial in trials]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = f"{len(values)} trials between {low:.4g} and {high:.4g}"
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return f"No difference: {len(values)} trials have the same value, {high:.4g}."
    seeds = sweep.settings.get("seeds", 1)
    if isinstance(seeds, int) and seeds > 1:
        p_value = _analysis_of_variance(trials, which, seeds)
        if p_value is None or p_value < _SURE:
            return ""
        return f"No difference beyond the seeds: {span} (analysis of variance, p = {p_value:.2f})."
    error = _standard_error(sweep, which)
    if error is None:
        return ""
    from scipy.stats import studentized_range

    if high - low > studentized_range.ppf(1 - _SURE, len(values), 1e6) * error:
        return ""
    return (
        f"No difference beyond noise: {span}; on the judged rows one value is uncertain by "
        f"± {error:.2g}. More rows or several seeds a trial (seeds: 3) can tell them apart."
    )


def _analysis_of_variance(trials: list[Trial], which: int, seeds: int) -> float | None:
    """Return the p value of one factor with ``seeds`` values a trial, from means and deviations."""
    from scipy.stats import f

    known = [(t.values[which], t.deviations[which]) for t in trials if which < len(t.deviations)]
    pairs = [(mean, float(d)) for mean, d in known if d is not None and isfinite(d)]
    if len(pairs) < len(trials):
        return None
    within = sum(deviation**2 for _, deviation in pairs) / len(pairs)
    middle = sum(mean for mean, _ in pairs) / len(pairs)
    between = seeds * sum((mean - middle) ** 2 for mean, _ in pairs) / (len(pairs) - 1)
    if within == 0.0:
        return 0.0
    return float(f.sf(between / within, len(pairs) - 1, len(pairs) * (seeds - 1)))


def _standard_error(sweep: Sweep, which: int) -> float | None:
    """Return the standard error of the best value, a percentage of rows; None if unknown."""
    metric = sweep.metrics[which]
    pieces = metric.split("/")
    name = pieces[-1].removeprefix("at_threshold_").removeprefix("best_")
    if len(pieces) != 3 or pieces[0] != "eval" or name not in _SHARES:
        return None
    for trial in sweep.judged:
        place = trial_directory(trial.number, trial.attributes, sweep.directory)
        for run in [] if place is None else [place] if is_run(place) else runs_below(place):
            try:
                known = read_json(run / "predictions" / pieces[1] / "diagnostics.json")
            except RoadError:
                continue
            rows, share = known.get("rows"), min(max(trial.values[which] / 100, 0.0), 1.0)
            if isinstance(rows, int) and rows > 0:
                share = min(max(share, 1 / rows), 1 - 1 / rows) if rows > 1 else 0.5
                return 100 * sqrt(share * (1 - share) / rows)
    return None
