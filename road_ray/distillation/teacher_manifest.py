"""Manifest of the teachers of a run, for its record and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.model_files.remote_code import read_config
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.teacher_checks import check_teacher
from road_ray.distillation.teacher_identity import (
    ANSWERS_FOR,
    decisive_entries,
    fingerprint_config,
    fingerprint_tokenizer,
    fingerprint_weights,
    teacher_tokenizer,
)
from road_ray.models.heads.label_order import LabelMap
from road_ray.system.json_file import read_json

if TYPE_CHECKING:
    from road_ray.models.config import TeacherPrecision

_RECORDED = ("metrics", "datasets", "seed", "init")  # entries copied from road_ray.json


def teacher_manifest(
    directories: Sequence[str | Path],
    task: Task,
    label_map: LabelMap | None = None,
    precision: TeacherPrecision = "auto",
    student: str | None = None,
) -> dict[str, Any]:
    """Return the manifest of the teachers, ready for JSON: hashes of weights, configuration and
    tokenizer, labels, order, precision, and metrics and origin from ``road_ray.json`` if present.

    ``student`` is the fingerprint of the student's tokenizer, which decides the answers of teachers
    with another one.
    """
    teachers = []
    for directory in directories:
        order = check_teacher(directory, task, label_map=label_map)
        tokenizer = teacher_tokenizer(directory)
        fingerprint = None if tokenizer is None else fingerprint_tokenizer(tokenizer)
        other = student is not None and fingerprint not in (None, student)
        labels = read_config(directory).id2label
        teachers.append(
            {
                "directory": str(directory),
                "weights_sha256": fingerprint_weights(directory),
                "config_sha256": fingerprint_config(directory),
                "tokenizer_sha256": fingerprint,
                **({ANSWERS_FOR: student} if other else {}),
                "labels": [labels[index] for index in sorted(labels)],
                "order": None if order is None else list(order),
                "precision": precision,
                **_recorded(Path(directory)),
            }
        )
    return {"task": task.name, "teachers": teachers}


def identity_only(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a manifest that identify the teachers, without directory and metrics.
    The manifest of a mixture has ``datasets``, each with a manifest; they are returned by data set.
    """
    if "datasets" in manifest:
        return {name: identity_only(inner) for name, inner in manifest["datasets"].items()}
    teachers = [decisive_entries(teacher) for teacher in manifest["teachers"]]
    return {"task": manifest["task"], "teachers": teachers}


def _recorded(directory: Path) -> dict[str, Any]:
    """Return metrics and origin of a teacher that road_ray trained."""
    path = directory / "road_ray.json"
    record = read_json(path) if path.is_file() else {}
    return {name: record[name] for name in _RECORDED if name in record}
