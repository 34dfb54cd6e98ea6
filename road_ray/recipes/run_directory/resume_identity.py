"""The copies of a run's checkpoints on a mirror: of which run they are, and where each has its own.

A mirror outlives run directories, and one address is often given to many runs. So copies tell what
decided their run, and a run inside another keeps its own below the other's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from road_ray.config import Config, to_dict
from road_ray.data.corpus.storage import address_below
from road_ray.data.readers.layouts import SPLITS
from road_ray.recipes.run_directory.recorded_config import FREE_ON_RESUME
from road_ray.training.config import TrainingConfig

# Told by their content, in the identity of a checkpoint: they may lie elsewhere on a new machine.
_BY_CONTENT = {
    *("data.root", "data.shards", "probe.root"),
    *("data.shard_cache", "data.shard_cache_gb"),
    *("distillation.teachers", "distillation.num_teachers"),
}


def resume_identity(config: Config) -> dict[str, Any]:
    """The verb, and every dotted key whose value decides what a run of it makes."""
    keys = _keys(config, _without_files(to_dict(config)))
    left_out = FREE_ON_RESUME | _BY_CONTENT
    verb = type(config).__name__.removesuffix("Config").lower()
    return {"verb": verb} | {key: value for key, value in keys if key not in left_out}


def _without_files(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out where the files of own data sets lie: their rows are told by content."""
    data = told.get("data") or {}
    if not data.get("sets"):
        return told
    sets = {
        name: {key: value for key, value in one.items() if one["hub"] or key not in SPLITS}
        for name, one in data["sets"].items()
    }
    return told | {"data": data | {"sets": sets}}


def _keys(config: Config, told: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Fields of fields by their dotted keys; a mapping of the user's own is one value."""
    for name, value in told.items():
        inner = getattr(config, name)
        if isinstance(inner, Config):
            yield from _keys(inner, value, f"{above}{name}.")
        else:
            yield above + name, value


def mirrored_below(training: TrainingConfig, place: Path) -> TrainingConfig:
    """The settings of a run inside another, ``place`` being its directory relative to the other's:
    its copies lie there too, below the other's mirror.
    """
    if training.mirror is None:
        return training
    return training.model_copy(update={"mirror": address_below(training.mirror, place)})
