"""A sweep as its directory tells it: the Optuna study, and the run directories of its trials."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config import yaml as yaml_lines
from road_ray.errors import DataError, RoadError
from road_ray.reporting.plots.chart import Point, thinned
from road_ray.reporting.run_record import is_run, runs_below
from road_ray.training.monitoring.database_url import (
    check_database,
    foreign_tables,
    sqlite_file,
    with_password,
)
from road_ray.training.monitoring.journal import read_metrics, read_rows
from road_ray.training.monitoring.secrets import redact

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_log = logging.getLogger(__name__)
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
    deviations: tuple[float | None, ...] = ()  # over seeds, of each value
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
        return [
            trial
            for trial in self.trials
            if trial.state == "complete" and trial.values and all(map(isfinite, trial.values))
        ]

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
    """The sweep in ``directory``, from what its trials wrote down where the study is damaged.

    Raises ``DataError`` when neither can be read.
    """
    told = _told(directory)
    try:
        study = _study(directory, told)
    except DataError as error:
        if recorded := _recorded(directory, told):
            _log.warning("%s\n  read instead: the records of its trials", error)
            return recorded
        raise
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
    where = redact({"storage": url})["storage"] or path
    try:
        storage = _opened(url) if url else JournalStorage(JournalFileBackend(str(path)))
        names = optuna.get_all_study_names(storage)
        wanted = [name for name in (told.get("name"), directory.name) if name in names]
        if not names:
            raise DataError(f"{where}: holds no study\n  fix: run the sweep first")
        return optuna.load_study(study_name=(wanted or names)[0], storage=storage)
    except RoadError:
        raise
    except Exception as error:  # whatever a storage of any kind raises
        why = redact({"why": (str(error) or type(error).__name__).splitlines()[0]})["why"]
        raise DataError(
            f"{where}: the study cannot be opened: {why}\n"
            "  fix: `road sweep` with the same file rebuilds it from the trials"
        ) from error


def _opened(url: str) -> str:
    """The URL to open. Raises ``ValueError`` for one that `road sweep` would refuse: what a
    directory says may come from elsewhere, and reading must not make or change a database.
    """
    if foreign := foreign_tables(check_database(url)):
        raise ValueError(f"it belongs to another application (tables {', '.join(foreign[:5])})")
    path = sqlite_file(url)
    if path is not None and not path.is_file():
        raise ValueError(f"no file {path}")
    return with_password(url)


def _told(directory: Path) -> dict[str, Any]:
    """The recorded configuration of the sweep, whatever its file is called."""
    for name in ("sweep.resolved.yaml", "config.resolved.yaml", "sweep.yaml"):
        if (directory / name).is_file():
            try:
                return yaml_lines.read_yaml(directory / name).values
            except (OSError, RoadError):
                continue
    return {}


def _recorded(directory: Path, told: Mapping[str, Any]) -> Sweep | None:
    """The sweep as ``trial.json`` of every trial has it; None where there are none."""
    trials = []
    for path in sorted((directory / "trials").glob("[0-9]*/trial.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            trial = Trial(
                record["number"],
                record["state"],
                record["params"],
                tuple(record["values"]),
                [
                    (float(row["step"]), row["value"])
                    for row in _rows(path.parent / "reports.jsonl")
                ],
                record.get("seconds"),
                tuple(record.get("deviation") or ()),
                redact({"reason": record.get("reason")}),
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
        trials.append(trial)
    metrics, modes = (_several(told.get(name)) for name in ("metric", "mode"))
    if not trials or not metrics:
        return None
    larger = tuple(mode != "min" for mode in modes or ("max",))
    name = str(told.get("name") or directory.name)
    return Sweep(name, directory, metrics, larger, trials, settings=redact(told))


def _several(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _rows(path: Path) -> list[dict[str, Any]]:
    return read_rows(path) if path.is_file() else []


_STATES = {"FAIL": "failed", "COMPLETE": "complete", "PRUNED": "pruned", "RUNNING": "running"}


def _trial(trial: FrozenTrial, directory: Path, metric: str) -> Trial:
    duration = trial.duration
    curve = sorted((float(s), v) for s, v in trial.intermediate_values.items() if v == v)
    told = redact(trial.user_attrs)
    spent = told.get("seconds") or (duration.total_seconds() if duration else None)
    spread = told.get("deviation") or ()
    return Trial(
        number=trial.number,
        state=_STATES.get(trial.state.name, "waiting"),
        params=dict(trial.params),
        values=tuple(trial.values or ()),
        curve=thinned(curve or _journalled(trial, directory, metric), _MOST_POINTS),
        seconds=spent,
        deviations=tuple(spread) if isinstance(spread, list | tuple) else (spread,),
        told=told,
    )


def _journalled(trial: FrozenTrial, directory: Path, metric: str) -> list[Point]:
    """The curve of the metric in the first run of the trial that has it; else that of a loss."""
    place = trial_directory(trial.number, trial.user_attrs, directory)
    if place is None:
        return []
    for run in [place] if is_run(place) else runs_below(place):
        try:
            rows = read_metrics(run / "metrics.jsonl")
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
    candidates.append(directory / "trials" / f"{number:04d}")
    return next((path for path in candidates if path.is_dir()), None)


def _logs(trials: Iterable[FrozenTrial]) -> Iterable[str]:
    for trial in trials:
        for key, spread in trial.distributions.items():
            if getattr(spread, "log", False):
                yield key
