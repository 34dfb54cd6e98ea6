"""``teachers.json`` of a run, and what the record of its model says of its teachers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from road_ray.config import to_dict
from road_ray.distillation.teacher_directory import identity_only
from road_ray.recipes.run_directory.input_files import identity_of
from road_ray.recipes.train.config import MultitaskConfig, TrainConfig
from road_ray.recipes.train.teachers import Teachers, used_weighting
from road_ray.system.json_file import write_json_atomic
from road_ray.training.checkpoint.atomic_commit import has_checkpoints

# Settings of the distillation in the record and the card of the model.
_CARD_SETTINGS = ("kd_weight", "schedule", "temperature", "average_loss", "matching")


def record_teachers(config: TrainConfig, teachers: Mapping[str, Teachers]) -> None:
    """Record the teachers of a run that begins; a resumed one has the same, by its checkpoint."""
    path = config.run_dir / "teachers.json"
    if teachers and not (path.is_file() and has_checkpoints(config.run_dir / "checkpoints")):
        write_json_atomic(path, _manifest(config, teachers))


def lineage(
    config: TrainConfig, teachers: Mapping[str, Teachers]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the teachers for the record of the model, and the identity of a run with them."""
    if not teachers:
        return {}, {}
    several = isinstance(config, MultitaskConfig)
    most = max(teachers.values(), key=lambda found: found.per_row)
    settings = to_dict(most.settings)
    record = {
        "distillation": {name: settings[name] for name in _CARD_SETTINGS if name in settings},
        "weighting": to_dict(used_weighting(most.weighting, most.per_row)),
        "teachers": [
            teacher | ({"dataset": name} if several else {})
            for name, found in teachers.items()
            for teacher in found.manifest["teachers"]
        ],
    }
    identity = identity_of(teachers=identity_only(_manifest(config, teachers)))
    if not several and most.folds > 1:
        identity |= identity_of(folds=most.folds)
    return record, identity


def _manifest(config: TrainConfig, teachers: Mapping[str, Teachers]) -> dict[str, Any]:
    """Return the manifest of the teachers of a run; a mixture has one of each data set."""
    manifests = {name: dict(found.manifest) for name, found in teachers.items()}
    if isinstance(config, MultitaskConfig):
        return {"datasets": manifests}
    (manifest,) = manifests.values()
    return manifest
