"""Sweep directories, read for a report: the Optuna study and the run directories of its trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from operator import ge, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config.secrets import redact
from road_ray.config.yaml_files import read_yaml
from road_ray.errors import DataError, RoadError, first_line

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

JOURNAL, RECORD = "study.journal", "sweep.resolved.yaml"


@dataclass(frozen=True)
class Sweep:
    """A study, with directory and settings of its sweep; secrets are masked."""

    study: Study
    directory: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def trials(self) -> list[FrozenTrial]:
        """Return all trials of the study."""
        trials: list[FrozenTrial] = self.study.get_trials(deepcopy=False)
        return trials

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


def is_sweep(directory: Path) -> bool:
    """Return True if a directory is a sweep directory."""
    return any((directory / name).is_file() for name in (JOURNAL, RECORD))


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
