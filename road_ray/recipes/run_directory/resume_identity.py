"""Identity of a run: the keys that may change when it is resumed, and those that may not.

Copies of checkpoints on a mirror carry the identity, because a mirror outlives run directories and
many runs may name one address. A run inside another has its copies below those of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from road_ray.config import Config, to_dict
from road_ray.data.corpus.storage import address_below
from road_ray.data.readers.layouts import SPLITS
from road_ray.training.config import TrainingConfig

# Keys that may differ when a run is resumed: they change where and how it runs, not what comes out;
# or they are the way out of an error (on_spike).
FREE_ON_RESUME = {
    *(
        "run_dir",
        "workers",
        "min_workers",
        "gpus_per_worker",
        "address",
        "console",
        "max_concurrent",
    ),
    "timeout_seconds",
    *(f"tracking.{name}" for name in ("wandb_project", "wandb_mode", "wandb_group")),
    *(f"tracking.{name}" for name in ("mlflow_uri", "mlflow_experiment", "tensorboard")),
    *(f"training.{what}_every_steps" for what in ("log", "evaluate", "save")),
    *("training.keep_checkpoints", "training.mirror", "training.on_spike", "data.cache"),
    *("data.shard_cache", "data.shard_cache_gb"),
    *("training.activation_checkpointing", "training.fsdp"),
    *(f"distillation.{what}" for what in ("host", "lookahead", "timeout_seconds")),
    *(f"distillation.{what}" for what in ("store", "check_parity", "allow_other_teachers")),
    *(f"distillation.{what}_per_teacher" for what in ("cpus", "gpus")),
}

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
