"""Who the teachers of a run are, as its record and its checkpoints tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config.json_file import read_json
from road_ray.data.model_files import read_config
from road_ray.data.schema import Task
from road_ray.distillation.teacher_identity import (
    DECISIVE,
    check_teacher,
    fingerprint_config,
    fingerprint_tokenizer,
    fingerprint_weights,
    teacher_tokenizer,
)

if TYPE_CHECKING:
    from road_ray.models.config import Precision

_TOLD = ("metrics", "datasets", "seed", "init")  # of road_ray.json: how good, and from where


def teacher_manifest(
    directories: Sequence[str | Path],
    task: Task,
    label_map: Mapping[str, str] | None = None,
    precision: Precision = "auto",
) -> dict[str, Any]:
    """What a run record says of its teachers, ready for JSON: hashes of weights, configuration and
    tokenizer, labels, order, precision, figures and where they come from (``road_ray.json``, if
    they are ours).
    """
    teachers = []
    for directory in directories:
        order = check_teacher(directory, task, label_map=label_map)
        tokenizer = teacher_tokenizer(directory)
        labels = read_config(directory).id2label
        teachers.append(
            {
                "directory": str(directory),
                "weights_sha256": fingerprint_weights(directory),
                "config_sha256": fingerprint_config(directory),
                "tokenizer_sha256": None if tokenizer is None else fingerprint_tokenizer(tokenizer),
                "labels": [labels[index] for index in sorted(labels)],
                "order": None if order is None else list(order),
                "precision": precision,
                **_told(Path(directory)),
            }
        )
    return {"task": task.name, "teachers": teachers}


def identity_only(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Of a teacher manifest what makes the teachers who they are: not where they lie, nor how good
    they were found to be. Of a mixture, whose ``datasets`` have a manifest each, by data set.
    """
    if "datasets" in manifest:
        return {name: identity_only(one) for name, one in manifest["datasets"].items()}
    teachers = [{name: one.get(name) for name in DECISIVE} for one in manifest["teachers"]]
    return {"task": manifest["task"], "teachers": teachers}


def _told(directory: Path) -> dict[str, Any]:
    """What a teacher of our own says of itself."""
    path = directory / "road_ray.json"
    told = read_json(path) if path.is_file() else {}
    return {name: told[name] for name in _TOLD if name in told}
