"""Start of a run's teachers in actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from road_ray.data.task_and_dataset import Task
from road_ray.recipes.distillation.config import TeachingConfig

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
    """Start the teachers in actors of the connected cluster. Leaves room for ``beside`` workers and
    ``other_teachers`` of this run. ``student`` is the fingerprint of the student's tokenizer.
    """
    from road_ray.distributed.teachers.pool import specify_pool, start_pool

    same = ("replicas", "resources", "precision", "label_map")
    specification = specify_pool(
        directories,
        task,
        num_cpus=settings.cpus_per_teacher,
        num_gpus=settings.gpus_per_teacher,
        beside=beside,
        other_teachers=other_teachers,
        student=student,
        compiled=settings.torch_compile,
        timeout_seconds=settings.timeout_seconds,
        start_timeout_seconds=settings.start_timeout_seconds,
        **{name: getattr(settings, name) for name in same},
    )
    return start_pool(specification)
