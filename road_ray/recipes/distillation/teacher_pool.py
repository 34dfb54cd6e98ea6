"""The teachers of a run: their directories, their start in actors, and their record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config import to_dict
from road_ray.data.model_files import locate_model
from road_ray.data.schema import Task
from road_ray.distillation.teacher_manifest import identity_only
from road_ray.distillation.weighting import Rule, default_rule, options_of, resolve
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.encoder import model_directory
from road_ray.recipes.distillation.config import DistillationConfig, TeachingConfig, WeightingConfig
from road_ray.recipes.distillation.teacher_list import resolve_teachers
from road_ray.recipes.run_directory.manifest import require_whole_weights
from road_ray.system.json_file import read_json, write_json_atomic
from road_ray.training.checkpoint.atomic_commit import has_checkpoints

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble


def start_teacher_pool(
    settings: TeachingConfig,
    task: Task,
    directories: list[str],
    *,
    beside: int,
    other_teachers: int = 0,
    student: str | None = None,
) -> ActorEnsemble:
    """Start the teachers in actors of the connected cluster, or join a shared pool. Leaves room for
    ``beside`` workers and ``other_teachers`` of this run. ``student`` is the fingerprint of the
    student's tokenizer.
    """
    from road_ray.distributed.teachers.pool import specify_pool, start_pool
    from road_ray.distributed.teachers.shared_pool import shared_ensemble

    if settings.on_lost == "drop" and settings.store is not None:
        raise ConfigError(
            "distillation.on_lost is drop and distillation.store is given\n"
            "  allowed: one of them; a store keeps the answers of all teachers, or none"
        )
    same = ("replicas", "teachers_per_actor", "resources", "on_lost", "precision", "label_map")
    specification = specify_pool(
        directories,
        task,
        num_cpus=settings.cpus_per_teacher,
        num_gpus=settings.gpus_per_teacher,
        beside=beside,
        other_teachers=other_teachers,
        student=student,
        timeout_seconds=settings.timeout_seconds,
        start_timeout_seconds=settings.start_timeout_seconds,
        **{name: getattr(settings, name) for name in same},
    )
    return shared_ensemble(specification) if settings.shared else start_pool(specification)


def used_weighting(weighting: WeightingConfig, num_teachers: int) -> WeightingConfig:
    """Return the configuration with the rule for rows with ``num_teachers`` teachers."""
    return weighting.model_copy(update={"rule": weighting.rule or default_rule(num_teachers)})


def weighting_rule(
    weighting: WeightingConfig, temperature: float = 1.0, *, num_teachers: int
) -> Rule:
    """Return the rule for rows with ``num_teachers`` teachers, with the options that it takes."""
    settings = to_dict(used_weighting(weighting, num_teachers)) | {"temperature": temperature}
    name = settings.pop("rule")
    return resolve(name, **{key: settings[key] for key in options_of(name) if key in settings})


def teacher_directories(settings: DistillationConfig) -> list[str]:
    """Return the model directories of the teachers, fold after fold if there are folds. Raises
    ``ConfigError`` unless there are ``num_teachers`` of them (of each fold).
    """
    return locate_teachers(settings.teachers, settings.num_teachers)


def locate_teachers(
    teachers: Sequence[str], count: int | None, key: str = "distillation.teachers"
) -> list[str]:
    """Return the model directories of the ``teachers`` of ``key``. Raises ``ConfigError`` unless
    there are ``count`` of them (of each fold); None: any number.
    """
    names, folds = resolve_teachers(teachers, key)
    if count is not None and len(names) != count * folds:
        raise ConfigError(
            f"{key} names {len(names)} teachers{': ' if names else ''}{', '.join(names)}\n"
            f"  allowed: exactly distillation.num_teachers = {count}"
            f"{f' for each of {folds} folds' if folds > 1 else ''}\n"
            f"  fix: {key}=[MODEL,MODEL,...], or the teachers.json that `road teachers` writes, or "
            "another distillation.num_teachers\n"
            "  nothing was started"
        )
    for name in names:
        require_whole_weights(name)
    try:
        return [str(locate_model(model_directory(name))) for name in names]
    except CheckpointError as error:
        message = str(error).removeprefix("init = ").removeprefix(f"{key}: ")
        raise CheckpointError(f"{key}: {message}") from error


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
