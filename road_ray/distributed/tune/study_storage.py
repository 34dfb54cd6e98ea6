"""Storage of a sweep's study: a journal in its directory, or a shared database."""

from __future__ import annotations

import hashlib
import json
import uuid
import warnings
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend

from road_ray.config.secrets import PASSWORD, foreign_tables, redact, with_password
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.errors import ConfigError, ResourceError, first_line
from road_ray.training.monitoring.metrics_journal import cut_torn_line

_SPACE = "road_ray:space"
_PLACE = "road_ray:directory"  # attribute with the sweep directory of a study in a database
IDENTITY = "road_ray:identity"  # attribute that the records of the study's trials repeat
JOURNAL = "study.journal"
_DIGEST = "sha256"  # of a line of the journal and all before it
DAMAGED_REMEDY = (
    "  fix: put back a copy of it, or start another sweep (name, run_dir), which learns from the "
    "complete trials of this one by warm_from\n  kept: the sweep, as it is"
)


class ChainedJournal(JournalFileBackend):  # type: ignore[misc]  # Optuna does not type it
    """Optuna's journal, with a digest in each line over that line and all before it. One process
    writes at a time: the one that holds the sweep lock.
    """

    def __init__(self, path: Path) -> None:
        """Raises ``ValueError`` for a line that is not as it was written."""
        super().__init__(str(path))
        self._last = ""
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            log = json.loads(line)
            given = log.pop(_DIGEST, None) if isinstance(log, dict) else None
            self._last = self._digest(log)
            if given != self._last:
                raise ValueError(f"line {number} is not as it was written")

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append the logs, each with its digest."""
        chained = []
        for log in logs:
            self._last = self._digest(log)
            chained.append(log | {_DIGEST: self._last})
        super().append_logs(chained)

    def _digest(self, log: object) -> str:
        return hashlib.sha256((self._last + json.dumps(log)).encode()).hexdigest()


def open_storage(config: SearchConfig, name: str, directory: Path) -> optuna.Study:
    """Return the study with that name, created if there is none.

    Raises ``ConfigError`` if it has another space or belongs to another sweep, ``ResourceError`` if
    the storage cannot be opened.
    """
    if config.storage is None:
        return _from_journal(config, name, directory)
    storage = _database(config.storage)
    study = _created(config, name, storage)
    _require_own_sweep(study, directory.resolve())
    return study


def _require_own_sweep(study: optuna.Study, directory: Path) -> None:
    """Raise ``ConfigError`` if the study belongs to another sweep, which would take over this one's
    trials.
    """
    before = study.user_attrs.get(_PLACE)
    if before not in (None, str(directory)) and Path(before).is_dir():
        raise ConfigError(
            f"a study named {study.study_name!r} is in that storage already, of the sweep in\n"
            f"    there: {before}\n    asked: {directory}\n"
            "  fix: name=ANOTHER, or run_dir as it was there to continue that sweep\n"
            "  kept: that study, as it is"
        )
    study.set_user_attr(_PLACE, str(directory))


def _database(url: str) -> BaseStorage:
    try:
        if foreign := foreign_tables(url):
            raise ConfigError(
                f"storage = {url}: belongs to another application (tables "
                f"{', '.join(foreign[:5])})\n"
                "  fix: name a file of its own\n  kept: that database, as it is"
            )
        return optuna.storages.get_storage(with_password(url))
    except ConfigError:
        raise
    except Exception as error:
        reason = first_line(error)
        raise ResourceError(
            f"storage = {_without_secrets(url)}: cannot be opened: "
            f"{redact({'reason': reason})['reason']}\n"
            "  allowed: an SQLAlchemy URL (sqlite:///study.db, mysql+pymysql://...), its driver "
            "installed\n"
            f"  fix: correct it, set its password in {PASSWORD}, or leave it out for a file in the "
            "sweep's directory\n"
            "  nothing was started"
        ) from error


def _without_secrets(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    return scheme + slashes + rest.rpartition("@")[2]


def _from_journal(config: SearchConfig, name: str, directory: Path) -> optuna.Study:
    path = directory / JOURNAL
    try:
        path.with_name(JOURNAL + ".lock").unlink(missing_ok=True)  # left behind by a killed process
        cut_torn_line(path)
        return _created(config, name, JournalStorage(ChainedJournal(path)))
    except (OSError, ValueError) as error:
        raise ResourceError(
            f"{path}: cannot be used: {first_line(error)}\n{DAMAGED_REMEDY}"
        ) from error


def _created(config: SearchConfig, name: str, storage: BaseStorage) -> optuna.Study:
    directions = ["maximize" if mode == "max" else "minimize" for mode in config.mode]
    space = {
        key: scope.model_dump(mode="json", exclude_none=True) for key, scope in config.space.items()
    }
    identity = json.dumps(
        {"space": space, "metric": config.metric, "mode": config.mode}, sort_keys=True
    )
    known = {summary.study_name for summary in optuna.get_all_study_summaries(storage)}
    if name in known:
        study = optuna.load_study(study_name=name, storage=storage)
        before = study.user_attrs.get(_SPACE)
        if before is not None and before != identity:
            raise ConfigError(
                f"a study named {name!r} already exists, with another space or metric:\n"
                f"    there: {before}\n    asked: {identity}\n"
                "  fix: name=ANOTHER (and its own run_dir), or continue with the file as it was\n"
                "  kept: that study, as it is"
            )
    study = optuna.create_study(
        study_name=name, storage=storage, directions=directions, load_if_exists=True
    )
    study.set_user_attr(_SPACE, identity)
    if IDENTITY not in study.user_attrs:
        study.set_user_attr(IDENTITY, uuid.uuid4().hex)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(list(config.metric))
    return study


def sampler(config: SearchConfig, seed: int) -> Any:
    """Return Optuna's sampler of a configuration."""
    samplers = optuna.samplers
    if config.sampler == "gp":
        return samplers.GPSampler(seed=seed)
    if config.sampler == "nsga2":
        return samplers.NSGAIISampler(seed=seed, population_size=max(4, config.trials // 4))
    if config.sampler in ("random", "grid"):  # the points of a grid are enqueued
        return samplers.RandomSampler(seed=seed)
    startup = max(2, min(10, config.trials // 3))
    return samplers.TPESampler(seed=seed, n_startup_trials=startup)
