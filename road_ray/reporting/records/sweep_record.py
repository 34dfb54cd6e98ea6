"""Sweep directories, read for a report: the Optuna study and the run directories of its trials;
whether their values differ by more than chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, sqrt
from operator import ge, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config.secrets import redact
from road_ray.config.yaml_files import read_yaml
from road_ray.errors import DataError, RoadError, first_line
from road_ray.system.files import read_json

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

JOURNAL, RECORD = "study.journal", "sweep.resolved.yaml"
_SURE = 0.05
_SHARES = ("accuracy", "exact", "f1", "entity_f1")  # percentages of rows, or nearly so


@dataclass(frozen=True)
class Sweep:
    """A study, with directory and settings of its sweep; secrets are masked."""

    study: Study
    directory: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def trials(self) -> list[FrozenTrial]:
        """Return the trials of the study, without those that an earlier version copied into it."""
        trials: list[FrozenTrial] = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if not trial.user_attrs.get("origin")]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return tuple(self.study.metric_names or self.settings.get("metric", ["value"]))

    @cached_property
    def larger(self) -> list[bool]:
        """Return True for each metric to maximize."""
        return [direction.name == "MAXIMIZE" for direction in self.study.directions]

    @cached_property
    def logs(self) -> set[str]:
        """Return the keys with a logarithmic scale."""
        spreads = (item for trial in self.trials for item in trial.distributions.items())
        return {key for key, spread in spreads if getattr(spread, "log", False)}

    @cached_property
    def complete(self) -> list[FrozenTrial]:
        """Return the complete trials with finite values."""
        done = (trial for trial in self.trials if trial.state.name == "COMPLETE")
        return [trial for trial in done if all(map(isfinite, trial.values))]

    @cached_property
    def params(self) -> list[str]:
        """Return every sampled key, in order of first appearance."""
        return list(dict.fromkeys(key for trial in self.trials for key in trial.params))

    @cached_property
    def varied(self) -> list[str]:
        """Return the keys with more than one value."""
        return [
            key
            for key in self.params
            if len({str(t.params[key]) for t in self.trials if key in t.params}) > 1
        ]

    @cached_property
    def best(self) -> list[FrozenTrial]:
        """Return the best trial or, with several metrics, the Pareto front."""
        return best_of(self.complete, self.larger)

    @cached_property
    def tie(self) -> str:
        """Return a sentence if the complete trials of one metric do not differ by more than noise,
        or an empty one.

        The trials tie if the whole range of their values is no wider than that of as many equal
        models (studentised range, 95%). The error of a value is its deviation over seeds or, with
        one seed, the standard error of a percentage of the evaluated rows.
        """
        trials = self.complete
        values = [trial.values[0] for trial in trials]
        if len(values) < 2 or len(self.metrics) > 1:
            return ""
        low, high = min(values), max(values)
        span = f"{len(values)} trials between {low:.4g} and {high:.4g}"
        if high - low <= 1e-6 * max(abs(low), abs(high)):
            return f"No difference: {len(values)} trials have the same value, {high:.4g}."
        seeds, error, freedom = self.settings.get("seeds", 1), None, 10**6
        if isinstance(seeds, int) and seeds > 1:
            known = [d[0] for trial in trials if (d := trial.user_attrs.get("deviation"))]
            squares = [float(d) ** 2 for d in known if d is not None and isfinite(d)]
            freedom, source = len(values) * (seeds - 1), f"over {seeds} seeds"
            if len(squares) == len(values):
                error = sqrt(sum(squares) / len(values) / seeds)
        else:
            error, source = _standard_error(self, values[0]), "on the evaluated rows"
        if error is None:  # a deviation, or the number of rows, is unknown
            return ""
        from scipy.stats import studentized_range

        if high - low > studentized_range.ppf(1 - _SURE, len(values), freedom) * error:
            return ""
        return (
            f"No difference beyond noise: {span}; {source} one value is uncertain by ± "
            f"{error:.2g}. More rows or more seeds a trial (seeds: 3) can tell them apart."
        )

    @cached_property
    def ranks(self) -> dict[int, float | None]:
        """Return the rank from worst (0) to best (1) of each complete trial, by number; None for
        trials that tie.

        With ranks, one diverged trial does not give all others a single colour. Equal values are
        all best.
        """
        complete = self.complete
        if self.tie:
            return {trial.number: None for trial in complete}
        values = sorted({trial.values[0] for trial in complete}, reverse=not self.larger[0])
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
        if self.tie or len(self.complete) < 4 or len(self.varied) < 2:
            return {}
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        # With a target, the evaluator explains low values whatever the direction of the study is.
        sign = -1.0 if self.larger[0] else 1.0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # The best tenth ties with all others: the shares would be equal and mean nothing.
                warnings.filterwarnings("error", message="Target and region quantiles")
                shares = get_param_importances(
                    self.study,
                    evaluator=PedAnovaImportanceEvaluator(),
                    params=[k for k in self.varied if all(k in t.params for t in self.complete)],
                    target=lambda trial: sign * trial.values[0],
                )
        except (ValueError, RuntimeError, UserWarning):
            return {}
        return {key: share for key, share in shares.items() if share == share}


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


def best_of(trials: Iterable[Any], larger: Sequence[bool]) -> list[Any]:
    """Return the complete trials, of a study or as records, that no other one is better than in all
    metrics; with one metric, the first of the best. ``larger`` is True for each metric to maximize.
    """
    scores = [
        (tuple(v if up else -v for v, up in zip(trial.values, larger, strict=True)), trial)
        for trial in trials
        if all(map(isfinite, trial.values))
    ]
    if len(larger) == 1:
        return [max(scores, key=itemgetter(0))[1]] if scores else []
    return [
        trial
        for candidate, trial in scores
        if not any(other != candidate and all(map(ge, other, candidate)) for other, _ in scores)
    ]


def read_sweep(directory: Path) -> Sweep:
    """Return the sweep in ``directory``. Raises ``DataError`` if its study cannot be read."""
    try:
        settings = read_yaml(directory / RECORD).values
    except (OSError, RoadError):  # missing or damaged
        settings = {}
    return Sweep(_study(directory, settings), directory, redact(settings))


def _study(directory: Path, settings: Mapping[str, Any]) -> Study:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = directory / JOURNAL
    try:
        path.stat()  # Optuna would make one that is not there
        storage = JournalStorage(JournalFileBackend(str(path)))
        names = optuna.get_all_study_names(storage)
        known = [name for name in (settings.get("name"), directory.name) if name in names]
        if not names:
            raise DataError(f"{path}: holds no study\n  fix: run the sweep first")
        return optuna.load_study(study_name=(known or names)[0], storage=storage)
    except RoadError:
        raise
    except Exception as error:  # Optuna replays what it reads without checks
        why = first_line(error)
        raise DataError(
            f"{path}: the study cannot be opened: {why}\n  fix: put back a copy of it"
        ) from error
