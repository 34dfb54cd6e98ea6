"""Identity of a run: the keys that may change when it is resumed, and those that may not.

A mirror outlives run directories, and one address is often given to many runs. So copies of
checkpoints record the identity of their run, and a run inside another has its copies below the
other's address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from road_ray.config import Config, to_dict
from road_ray.data.readers.layouts import SPLITS
from road_ray.system.remote_files import address_below
from road_ray.training.config import TrainingConfig

# Keys that may differ when a run is resumed: they do not change the result.
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
    *(f"training.{act}_every_steps" for act in ("log", "evaluate", "save")),
    *("training.keep_checkpoints", "training.keep_checkpoints_at_end", "training.mirror"),
    "data.cache",
    *("data.shard_cache", "data.shard_cache_gb"),
    *("training.activation_checkpointing", "training.fsdp"),
    *(f"distillation.{key}" for key in ("answers", "host", "lookahead", "timeout_seconds")),
    *(f"distillation.{key}" for key in ("store", "check_parity", "allow_other_teachers")),
    "distillation.num_teachers",  # a check; the teachers themselves are compared
    *(f"distillation.{unit}_per_teacher" for unit in ("cpus", "gpus")),
    *(f"distillation.{key}" for key in ("start_timeout_seconds", "replicas", "resources")),
}

# Identified by content in a checkpoint, because their paths may differ on a new machine.
_BY_CONTENT = {
    *("data.root", "data.shards", "probe.root"),
    *("data.shard_cache", "data.shard_cache_gb"),
    "distillation.teachers",
}


def free_on_resume(config: Config) -> set[str]:
    """Return the dotted keys that may differ when a run of this configuration is resumed."""
    training: TrainingConfig | None = getattr(config, "training", None)
    if training is None or training.early_stopping.patience is None:
        return set(FREE_ON_RESUME)
    # Its evaluations decide when the training ends and which weights it keeps.
    return FREE_ON_RESUME - {"training.evaluate_every_steps"}


def resume_identity(config: Config) -> dict[str, Any]:
    """Return the verb and every dotted key that determines the result of a run."""
    keys = _keys(config, _without_files(to_dict(config)))
    left_out = free_on_resume(config) | _BY_CONTENT
    verb = type(config).__name__.removesuffix("Config").lower()
    return {"verb": verb} | {key: value for key, value in keys if key not in left_out}


def _without_files(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the paths of custom data sets, whose rows are identified by
    content.
    """
    data = settings.get("data") or {}
    if not data.get("sets"):
        return settings
    sets = {
        name: {key: value for key, value in entry.items() if entry["hub"] or key not in SPLITS}
        for name, entry in data["sets"].items()
    }
    return settings | {"data": data | {"sets": sets}}


def _keys(
    config: Config, settings: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield all fields by dotted key; a mapping that is no ``Config`` is one value."""
    for name, value in settings.items():
        inner = getattr(config, name)
        if isinstance(inner, Config):
            yield from _keys(inner, value, f"{above}{name}.")
        else:
            yield above + name, value


def mirrored_below(training: TrainingConfig, place: Path) -> TrainingConfig:
    """Return the training settings of a run inside another, with its mirror below the other's.
    ``place`` is its directory relative to the other's.
    """
    if training.mirror is None:
        return training
    return training.model_copy(update={"mirror": address_below(training.mirror, place)})
