"""Plan of a run: three steps of the recipe are measured on its data and model, and time, memory and
disk are computed from them.
"""

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from road_ray.config import Config, override
from road_ray.data.corpus.prepare_corpus import is_prepared, sample_of
from road_ray.distributed import room
from road_ray.distributed.connection import connected
from road_ray.models.precision import default_device
from road_ray.recipes.config import IN_THIS_PROCESS, TrackingConfig
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import corpus_settings
from road_ray.recipes.train.config import (
    DistillConfig,
    FinetuningsConfig,
    MultitaskConfig,
    TeachersConfig,
)
from road_ray.training.profile import Measured
from road_ray.training.run_context import RunContext

_BYTES_PER_TOKEN, _SAMPLED_BATCHES = 5, 2
_LEAST_BYTES, _MOST_BYTES = 1 << 18, 4 << 20  # of text, whose rows and tokenizer take seconds


def plan(verb: str, config: Config, recipe: Callable[..., object]) -> dict[str, Any]:
    """Return steps, memory, disk and time of a run.

    A step takes ``measured_step_seconds``, or between the two ``measured_step_range``, which differ
    on a busy machine; that of ``workers`` equal workers takes their share of it, if communication
    overlaps with computation.

    Raises ``ClusterError``, ``ConfigError`` or ``ResourceError`` for a run that does not fit.
    """
    settings: Any = config  # of a verb that trains
    workers, gpus = settings.workers, settings.gpus_per_worker
    room.check_batch(settings.data.batch_size, workers)
    distillation: Any = getattr(config, "distillation", None)
    hosted = distillation is not None and distillation.host == "actors"
    teachers = settings.total_teachers if hosted else 0
    gpus_of_one = distillation.resources.get("GPU", 0.0) * distillation.replicas if hosted else 0.0
    with connected(settings.address) if settings.address else nullcontext():
        room.check_room(workers, gpus, teachers, gpus_of_one)
    measured = measured_steps(config, recipe)
    parts = max(workers, 1) if settings.training.fsdp else 1
    memory_bytes = {
        "parameters": measured.parameter_bytes // parts,
        "gradients": measured.gradient_bytes // parts,
        "optimizer": measured.optimizer_bytes // parts,
        "activations": measured.activation_bytes // max(workers, 1),
    }
    # A run without workers uses the GPU of this machine.
    on_gpu = gpus > 0 or (workers == 0 and default_device().type == "cuda")
    available = room.check_memory(sum(memory_bytes.values()), on_gpu, workers)
    runs = config.distillation.generations if isinstance(config, DistillConfig) else 1
    if isinstance(config, FinetuningsConfig):
        runs = config.num_seeds
    if isinstance(config, TeachersConfig):
        runs = config.num_teachers * config.num_folds
    at_most = _most_bytes(config, measured, runs)
    free = room.check_disk(Path(settings.run_dir), at_most)
    seconds = measured.seconds_per_step / max(workers, 1)
    steps = measured.total_steps
    return {
        "verb": verb,
        "runs": runs,
        "steps": steps,
        "rows": round(steps * measured.rows_per_step),
        "rows_per_epoch": measured.rows_per_epoch,
        "tokens": round(steps * measured.tokens_per_step),
        "batch_size": settings.data.batch_size,
        "parameters": measured.parameters,
        "memory_bytes": memory_bytes | {"available": available},
        "disk_bytes": {"checkpoint": measured.checkpoint_bytes, "at_most": at_most, "free": free},
        "measured_step_seconds": measured.seconds_per_step,
        "measured_step_range": measured.seconds_range,
        "measured_data_seconds": measured.data_seconds_per_step,
        "step_seconds": seconds,
        "hours": runs * steps * seconds / 3600,
    }


def _most_bytes(config: Any, measured: Measured, runs: int) -> int:
    """Return the most bytes of models and checkpoints on the disk at any time. The runs in progress
    have all their checkpoints and one that is being written, finished runs those that they keep.
    """
    keep = config.training.keep_checkpoints
    in_progress = min(runs, max(1, getattr(config, "max_concurrent", 0)))
    at_end = config.training.keep_checkpoints_at_end
    if at_end is None:
        at_end = int(isinstance(config, PretrainConfig))
    checkpoints = in_progress * (keep + 1) + (runs - in_progress) * min(at_end, keep)
    # A mixture exports its encoder with the head of each data set, and at the top.
    models = 1 + len(config.data.datasets) if isinstance(config, MultitaskConfig) else 1
    return runs * models * measured.parameter_bytes + int(checkpoints) * measured.checkpoint_bytes


def sampled_corpus(config: PretrainConfig, place: Path) -> tuple[dict[str, Any], float | None]:
    """Return the changed keys that replace a corpus without shards by its first documents, because
    building it takes minutes or hours, and the rows of a step of the full text. Both are empty if
    the shards exist, or if the sample holds all documents.
    """
    settings = corpus_settings(config)
    if is_prepared(settings):
        return {}, None
    tokens = settings.batch_size * settings.max_length_tokens
    num_bytes = _SAMPLED_BATCHES * tokens * _BYTES_PER_TOKEN
    sampled, is_complete = sample_of(
        settings, place, min(max(num_bytes, _LEAST_BYTES), _MOST_BYTES)
    )
    changes = {f"data.{key}": getattr(sampled, key) for key in ("corpus", "shards", "tokenizer")}
    return changes, None if is_complete else settings.batch_size * config.training.passes


def measured_steps(config: Config, recipe: Callable[..., object]) -> Measured:
    """Measure a few steps of the recipe in this process, with its teachers, in a temporary run
    directory.
    """
    context, rows_per_step = RunContext(plan_only=True), None
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        changes: dict[str, Any] = IN_THIS_PROCESS | {"run_dir": place, "console": "quiet"}
        if isinstance(config, PretrainConfig):
            sampled, rows_per_step = sampled_corpus(config, Path(place))
            changes |= sampled
        if getattr(config, "named_teachers", None):
            changes["distillation.host"] = "process"
        if "max_concurrent" in type(config).model_fields:
            changes["max_concurrent"] = 0
        untracked = override(config, changes).model_copy(update={"tracking": TrackingConfig()})
        recipe(untracked, context=context)
    assert context.measured is not None, "a recipe ended without training"
    return context.measured if rows_per_step is None else context.measured.scaled(rows_per_step)
