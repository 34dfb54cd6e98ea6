"""Noise of a sweep: a test of whether the values of its trials differ by more than chance."""

from __future__ import annotations

from math import isfinite, sqrt

from road_ray.reporting.records.sweep_record import Sweep
from road_ray.system.files import read_json

_SURE = 0.05
_SHARES = ("accuracy", "exact", "f1", "entity_f1")  # percentages of rows, or nearly so


def tie(sweep: Sweep) -> str:
    """Return a sentence if the complete trials of one metric do not differ by more than noise, or
    an empty one.

    Noise is the deviation over seeds, by an analysis of variance. With one seed it is the standard
    error of a percentage of the judged rows, and the trials tie if the whole range of their values
    is no wider than that of as many equal models (studentised range, 95%).
    """
    values = [trial.values[0] for trial in sweep.judged]
    if len(values) < 2 or len(sweep.metrics) > 1:
        return ""
    low, high = min(values), max(values)
    span = f"{len(values)} trials between {low:.4g} and {high:.4g}"
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return f"No difference: {len(values)} trials have the same value, {high:.4g}."
    seeds = sweep.settings.get("seeds", 1)
    if isinstance(seeds, int) and seeds > 1:
        p_value = _analysis_of_variance(sweep, values, seeds)
        if p_value is None or p_value < _SURE:
            return ""
        return f"No difference beyond the seeds: {span} (analysis of variance, p = {p_value:.2f})."
    error = _standard_error(sweep, values[0])
    if error is None:
        return ""
    from scipy.stats import studentized_range

    if high - low > studentized_range.ppf(1 - _SURE, len(values), 1e6) * error:
        return ""
    return (
        f"No difference beyond noise: {span}; on the judged rows one value is uncertain by "
        f"± {error:.2g}. More rows or several seeds a trial (seeds: 3) can tell them apart."
    )


def _analysis_of_variance(sweep: Sweep, means: list[float], seeds: int) -> float | None:
    """Return the p value of one factor with ``seeds`` values a trial, from means and deviations."""
    from scipy.stats import f

    known = [trial.deviations[0] for trial in sweep.judged if trial.deviations]
    deviations = [float(d) for d in known if d is not None and isfinite(d)]
    if len(deviations) < len(means):
        return None
    within = sum(deviation**2 for deviation in deviations) / len(means)
    middle = sum(means) / len(means)
    between = seeds * sum((mean - middle) ** 2 for mean in means) / (len(means) - 1)
    if within == 0.0:
        return 0.0
    return float(f.sf(between / within, len(means) - 1, len(means) * (seeds - 1)))


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
