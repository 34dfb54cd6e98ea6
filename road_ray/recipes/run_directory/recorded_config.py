"""Recorded configuration of a run directory, and the keys that may differ on resuming."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from road_ray.config import Config, InvalidConfig, flatten, load, to_dict
from road_ray.config.base import Extends, FreeOnResume, marked
from road_ray.errors import ConfigError
from road_ray.system.remote_files import address_below
from road_ray.training.config import TrainingConfig

C = TypeVar("C", bound=Config)
RECORD = "config.resolved.yaml"  # of every run directory
_LENGTH = {"training.steps", "data.epochs"}


def load_recorded(kind: type[C], path: Path) -> C:
    """Return the configuration in ``path``, which an earlier command wrote.

    Raises ``ConfigError`` with every key that this version of road_ray does not read.
    """
    try:
        return load(kind, path=path)
    except InvalidConfig as error:
        keys = "".join(f"\n    {problem.where}  {problem.message}" for problem in error.problems)
        raise ConfigError(
            f"{path} was not written by this version of road_ray, or was changed since:{keys}\n"
            "  fix: name another run_dir, or resume with the version that began this one\n"
            f"  kept: everything in {path.parent}, as it is"
        ) from None


def require_same(config: Config, run_dir: Path, record: str = RECORD) -> bool:
    """Return True if the run or sweep in ``run_dir`` has another value of a key with the mark
    ``Extends``, such as fewer seeds. Raises ``ConfigError`` with every other key that differs and
    that is not free on resuming.
    """
    recorded = flatten(to_dict(load_recorded(type(config), run_dir / record)))
    now = flatten(to_dict(config))
    extends = marked(config, Extends)
    free = marked(config, FreeOnResume) | extends
    differing = [key for key in sorted({*recorded, *now}) if recorded.get(key) != now.get(key)]
    changed = [key for key in differing if not _is_below(key, free)]
    if changed:
        lines = "".join(
            f"\n    {key}: there {recorded.get(key)!r}, asked {now.get(key)!r}" for key in changed
        )
        fix = "name another run_dir, or repeat the command that began this one"
        if set(changed) <= _LENGTH and (run_dir / "metrics.json").is_file():
            fix = (
                "the run is finished, and a finished run is not continued; to train its model "
                f"further: init={run_dir} and another run_dir"
            )
        raise ConfigError(
            f"run_dir = {run_dir} holds a run of another configuration, by its {record}:{lines}\n"
            f"  fix: {fix}\n"
            "  kept: that run, as it is"
        )
    return any(_is_below(key, extends) for key in differing)


def deciding_digest(config: Config) -> str:
    """Return a sha256 of all keys that must be equal on resuming."""
    free = marked(config, FreeOnResume)
    values = flatten(to_dict(config))
    fixed = {key: value for key, value in values.items() if not _is_below(key, free)}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def _is_below(key: str, keys: set[str]) -> bool:
    """Return True for one of the dotted keys, and for a key of a section among them."""
    return key in keys or any(key.startswith(f"{above}.") for above in keys)


def mirrored_below(training: TrainingConfig, place: Path) -> TrainingConfig:
    """Return the training settings of a run inside another, with its mirror below the other's.
    ``place`` is its directory relative to the other's.
    """
    if training.mirror is None:
        return training
    return training.model_copy(update={"mirror": address_below(training.mirror, place)})
