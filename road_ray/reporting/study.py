"""A sweep as its directory tells it: the Optuna study, and the run directories of its trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray import yaml_lines
from road_ray.errors import DataError, RoadError
from road_ray.reporting.chart import Point, thinned
from road_ray.reporting.runs import is_run, runs_below
from road_ray.training.journal import read_rows
from road_ray.training.redact import redact

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

JOURNAL = "study.journal"
_MOST_POINTS = 48  # of the curve of one trial


@dataclass(frozen=True)
class Trial:
    """One draw and what became of it. ``values`` is empty unless it has been judged."""

    number: int
    state: str  # complete, pruned, failed, running, waiting
    params: Mapping[str, Any]
    values: tuple[float, ...] = ()
    curve: Sequence[Point] = ()
    seconds: float | None = None
    told: Mapping[str, Any] = field(default_factory=dict)  # user attributes, secrets masked

    @property
    def value(self) -> float | None:
        """The first of its values."""
        return self.values[0] if self.values else None


@dataclass(frozen=True)
class Sweep:
    """All trials of a study. ``logs``: parameters that were drawn on a logarithmic scale."""

    name: str
    directory: Path
    metrics: tuple[str, ...]
    larger: tuple[bool, ...]  # is better, of each metric
    trials: Sequence[Trial]
    logs: frozenset[str] = frozenset()
    study: Study | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def judged(self) -> list[Trial]:
        """Trials that came to their end and have values."""
        return [trial for trial in self.trials if trial.state == "complete" and trial.values]

    @cached_property
    def params(self) -> list[str]:
        """Every key that was drawn, in the order of the first trial that has it."""
        return list(dict.fromkeys(key for trial in self.trials for key in trial.params))

    @cached_property
    def varied(self) -> list[str]:
        """Keys with more than one value."""
        return [
            key
            for key in self.params
            if len({str(t.params[key]) for t in self.trials if key in t.params}) > 1
        ]

    @cached_property
    def best(self) -> list[Trial]:
        """The best trial, or with several metrics those that no other beats in all of them."""
        if not self.judged:
            return []
        if len(self.metrics) == 1:
            pick = max if self.larger[0] else min
            return [pick(self.judged, key=lambda trial: trial.values[0])]
        scores = {t.number: self._scores(t) for t in self.judged}
        beaten = {n for n, own in scores.items() if any(_beats(s, own) for s in scores.values())}
        return [trial for trial in self.judged if trial.number not in beaten]

    def _scores(self, trial: Trial) -> tuple[float, ...]:
        return tuple(v if up else -v for v, up in zip(trial.values, self.larger, strict=True))


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def is_sweep(directory: Path) -> bool:
    """Whether a directory is that of a sweep."""
    return (directory / JOURNAL).is_file() or _told(directory).get("space") is not None


def read_sweep(directory: Path) -> Sweep:
    """The sweep in ``directory``. Raises ``DataError`` when its study cannot be opened."""
    told = _told(directory)
    study = _study(directory, told)
    attributes = study.user_attrs
    names = study.metric_names or attributes.get("metric") or told.get("metric") or ()
    names = [names] if isinstance(names, str) else list(names)
    names += [f"value {n}" for n in range(len(names), len(study.directions))]
    trials = [_trial(trial, directory, names[0]) for trial in study.get_trials(deepcopy=False)]
    return Sweep(
        name=study.study_name,
        directory=directory,
        metrics=tuple(names[: len(study.directions)]),
        larger=tuple(direction.name == "MAXIMIZE" for direction in study.directions),
        trials=trials,
        logs=frozenset(_logs(study.get_trials(deepcopy=False))),
        study=study,
        settings=redact(told),
    )


def _study(directory: Path, told: Mapping[str, Any]) -> Study:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url, path = told.get("storage"), directory / JOURNAL
    try:
        storage = url or JournalStorage(JournalFileBackend(str(path)))
        names = optuna.get_all_study_names(storage)
        wanted = [name for name in (told.get("name"), directory.name) if name in names]
        if not names:
            raise DataError(f"{url or path}: holds no study\n  fix: run the sweep first")
        return optuna.load_study(study_name=(wanted or names)[0], storage=storage)
    except RoadError:
        raise
    except Exception as error:  # whatever a storage of any kind raises
        raise DataError(
            f"{url or path}: the study cannot be opened: {str(error).splitlines()[0]}\n"
            "  fix: `road sweep` with the same file rebuilds it from the trials"
        ) from error


def _told(directory: Path) -> dict[str, Any]:
    """The recorded configuration of the sweep, whatever its file is called."""
    for name in ("sweep.resolved.yaml", "config.resolved.yaml", "sweep.yaml"):
        if (directory / name).is_file():
            try:
                return yaml_lines.read(directory / name).values
            except (OSError, RoadError):
                continue
    return {}


_STATES = {"FAIL": "failed", "COMPLETE": "complete", "PRUNED": "pruned", "RUNNING": "running"}


def _trial(trial: FrozenTrial, directory: Path, metric: str) -> Trial:
    duration = trial.duration
    curve = sorted((float(s), v) for s, v in trial.intermediate_values.items() if v == v)
    told = redact(trial.user_attrs)
    return Trial(
        number=trial.number,
        state=_STATES.get(trial.state.name, "waiting"),
        params=dict(trial.params),
        values=tuple(trial.values or ()),
        curve=thinned(curve or _journalled(trial, directory, metric), _MOST_POINTS),
        seconds=duration.total_seconds() if duration else None,
        told=told,
    )


def _journalled(trial: FrozenTrial, directory: Path, metric: str) -> list[Point]:
    """The curve of the metric in the first run of the trial that has it; else that of a loss."""
    place = trial_directory(trial.number, trial.user_attrs, directory)
    if place is None:
        return []
    for run in [place] if is_run(place) else runs_below(place):
        try:
            rows = read_rows(run / "metrics.jsonl")
        except (OSError, RoadError):
            continue
        points = [(float(r["step"]), float(r[metric])) for r in rows if r.get(metric) is not None]
        if len(points) > 1:
            return points
    return []


def trial_directory(number: int, told: Mapping[str, Any], directory: Path) -> Path | None:
    """Where a trial ran: as it says, or by its number; None where it is not there."""
    said = told.get("run_dir") or told.get("directory")
    candidates = [Path(said), directory / said] if isinstance(said, str) else []
    names = (f"{number:05d}", f"{number:04d}", f"trial-{number:04d}", str(number))
    candidates += [directory / "trials" / name for name in names]
    return next((path for path in candidates if path.is_dir()), None)


def _logs(trials: Iterable[FrozenTrial]) -> Iterable[str]:
    for trial in trials:
        for key, spread in trial.distributions.items():
            if getattr(spread, "log", False):
                yield key
