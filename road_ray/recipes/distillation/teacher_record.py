"""Record of the teachers of a run, ``teachers.json`` of its directory, checked on resuming."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from road_ray.distillation.teacher_manifest import identity_only
from road_ray.errors import CheckpointError
from road_ray.recipes.distillation.config import TeachingConfig
from road_ray.system.json_file import read_json, write_json_atomic
from road_ray.training.checkpoint.atomic_commit import has_checkpoints


def record_teachers(
    run_dir: Path, manifest: Mapping[str, object], settings: TeachingConfig
) -> None:
    """Record the teachers of a run, and those that it had before. Raises ``CheckpointError`` if a
    resumed run has other teachers and ``allow_other_teachers`` is not set.
    """
    path, now, earlier = run_dir / "teachers.json", dict(manifest), []
    if path.is_file() and has_checkpoints(run_dir / "checkpoints"):
        recorded = _manifest_in(path)
        earlier = recorded.pop("before", [])
        if identity_only(recorded) != identity_only(now):
            if not settings.allow_other_teachers:
                raise CheckpointError(
                    f"{run_dir}: this run began with other teachers; {path} names them\n"
                    "  fix: restore them, give another run_dir to start afresh, or allow it: "
                    "distillation.allow_other_teachers=true\n"
                    "  kept: the run, as it is"
                )
            earlier = [*earlier, recorded]
    write_json_atomic(path, now | {"before": earlier})


def recorded_teachers(run_dir: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest of the teachers of a run, and the identity of its first teachers."""
    manifest = _manifest_in(run_dir / "teachers.json")
    return manifest, identity_only((manifest.get("before") or [manifest])[0])


def _manifest_in(path: Path) -> dict[str, Any]:
    """Return the manifest that ``record_teachers`` wrote. Raises ``CheckpointError`` for any other
    file.
    """
    fix = "restore it, or delete it: the checkpoint records the teachers too"
    manifest = read_json(path, fix=fix)
    try:
        for recorded in (manifest, *manifest.get("before", [])):
            identity_only(recorded)
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: no manifest of teachers: {error!r}\n  fix: {fix}"
        ) from error
    return manifest
