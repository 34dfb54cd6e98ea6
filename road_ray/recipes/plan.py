"""Plan of a run: three steps of the recipe are measured on its data and model, and time, memory and
disk are computed from them.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from road_ray.config import Config, override, to_dict
from road_ray.data.corpus.prepare_corpus import is_prepared, sample_of
from road_ray.data.load_split import tasks_of
from road_ray.data.tokenizer import load_tokenizer
from road_ray.distributed.connection import connected
from road_ray.distributed.resource_estimate import (
    check_batch,
    check_disk,
    check_memory,
    check_room,
)
from road_ray.models.encoder import model_directory
from road_ray.models.performance.device_and_precision import default_device
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import TeachersConfig
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import corpus_settings, phases
from road_ray.recipes.pretraining.pretraining_flops import cost as flops
from road_ray.training.performance.profile import Measured
from road_ray.training.run_context import RunContext

_BYTES_PER_TOKEN, _SAMPLED_BATCHES = 5, 2
_LEAST_BYTES, _MOST_BYTES = 1 << 18, 4 << 20  # of text, whose rows and tokenizer take seconds
_NO_TRACKING = {"tracking": TrackingConfig()}


def plan(verb: str, config: Config, recipe: Callable[..., object]) -> dict[str, Any]:
    """Return steps, memory, disk and time of a run.

    A step takes ``measured_step_seconds``, or between the two ``measured_step_range``, which differ
    on a busy machine; that of ``workers`` equal workers takes their share of it, if communication
    overlaps with computation.

    Raises ``ClusterError``, ``ConfigError`` or ``ResourceError`` for a run that does not fit.
    """
    settings = to_dict(config)
    workers, gpus = int(settings["workers"]), float(settings["gpus_per_worker"])
    teachers, gpus_per_teacher = _teachers_in_actors(config)
    batch = int(settings["data"]["batch_size"])
    _check_batches(settings["data"], workers)
    with connected(settings["address"]) if settings["address"] else nullcontext():
        check_room(workers, gpus, teachers, gpus_per_teacher)
    measured = _measured(config, recipe, teachers > 0)
    runs = num_runs(config)
    fsdp = bool(settings["training"]["fsdp"])
    memory_bytes = _memory_bytes(measured, max(workers, 1), fsdp)
    most_bytes = _most_bytes(config, measured)
    if workers == 0 and default_device().type == "cuda":
        gpus = max(gpus, 1.0)  # a run without workers uses the GPU of this machine
    memory = check_memory(sum(memory_bytes.values()), gpus > 0, workers)
    free = check_disk(Path(settings["run_dir"]), most_bytes)
    seconds = measured.seconds_per_step / max(workers, 1)
    hours = runs * measured.total_steps * seconds / 3600
    steps = measured.total_steps
    teacher_gpus = (teachers + runs - 1) / runs * gpus_per_teacher  # later generations have one
    return {
        "verb": verb,
        "runs": runs,
        "steps": steps,
        "rows": round(steps * measured.rows_per_step),
        "rows_per_epoch": measured.rows_per_epoch,
        "tokens": round(steps * measured.tokens_per_step),
        "batch_size": batch,
        "phases": _phases(config, measured),
        "parameters": measured.parameters,
        "flops": _flops(config),
        "memory_bytes": memory_bytes | {"available": memory},
        "disk_bytes": {
            "checkpoint": measured.checkpoint_bytes,
            "at_most": most_bytes,
            "free": free,
        },
        "measured_step_seconds": measured.seconds_per_step,
        "measured_step_range": measured.seconds_range,
        "measured_data_seconds": measured.data_seconds_per_step,
        "step_seconds": seconds,
        "hours": hours,
        "gpu_hours": hours * (max(workers, 1) * gpus + teacher_gpus),
        "core_hours": hours * max(workers, 1),
    }


def _teachers_in_actors(config: Config) -> tuple[int, float]:
    """Return the number of teachers in actors, and the GPUs of each with all its replicas."""
    distillation: Any = getattr(config, "distillation", None)
    if distillation is None or distillation.host != "actors":
        return 0, 0.0
    return distillation.total_teachers, distillation.gpus_per_teacher * distillation.replicas


def num_runs(config: Config) -> int:
    """Return the number of equal trainings that a configuration runs."""
    if isinstance(config, TeachersConfig):
        return config.num_teachers * config.num_folds
    return config.distillation.generations if isinstance(config, DistillConfig) else 1


def _most_bytes(config: Any, measured: Measured) -> int:
    """Return the most bytes of models and checkpoints on the disk at any time. The runs in progress
    have all their checkpoints and one that is being written, finished runs those that they keep.
    """
    runs, keep = num_runs(config), measured.keep_checkpoints
    in_progress = min(runs, max(1, getattr(config, "max_concurrent", 0)))
    at_end = config.training.kept_at_end(default=1 if isinstance(config, PretrainConfig) else 0)
    checkpoints = in_progress * (keep + 1) + (runs - in_progress) * min(at_end, keep)
    models = runs * _num_exported(config)
    return int(models * measured.parameter_bytes + checkpoints * measured.checkpoint_bytes)


def _num_exported(config: Config) -> int:
    """Return the number of models that a run exports: a mixture one with each head, and one at the
    top.
    """
    if not isinstance(config, MultitaskConfig):
        return 1
    heads: set[str] = set()
    for name in config.data.datasets:
        own, *further = (task.name for task in tasks_of(name, config.data))
        heads |= {name if config.mixing.heads == "dataset" else own, *further}
    return 1 + len(heads)


def _memory_bytes(measured: Measured, workers: int, fsdp: bool) -> dict[str, int]:
    """Return the bytes of one worker: activations of its rows, and its share of everything else."""
    parts = workers if fsdp else 1
    return {
        "parameters": measured.parameter_bytes // parts,
        "gradients": measured.gradient_bytes // parts,
        "optimizer": measured.optimizer_bytes // parts,
        "activations": measured.activation_bytes // workers,
    }


def _check_batches(data: Mapping[str, Any], workers: int) -> None:
    batch = data["batch_size"]
    check_batch(batch, workers)
    for length, phase in data.get("shorter_first", {}).items():
        key = f"data.shorter_first.{length}.batch_size"
        check_batch(phase["batch_size"] or batch, workers, key)


def _phases(config: Config, measured: Measured) -> list[dict[str, float]]:
    """Return the phases of a pre-training with their steps; empty for other verbs."""
    if not isinstance(config, PretrainConfig):
        return []
    return [
        {
            "steps": phase.steps,
            "max_length_tokens": phase.max_length_tokens,
            "batch_size": phase.batch_size,
            "measured_step_seconds": seconds,
        }
        for phase, seconds in zip(phases(config), measured.seconds_by_phase, strict=True)
    ]


def _flops(config: Config) -> dict[str, float]:
    """Return the FLOPs of a pre-training and of one row of its encoder; empty for other verbs."""
    if not isinstance(config, PretrainConfig):
        return {}
    vocab_size = None
    if config.init and config.data.tokenizer is None:  # which cuts the corpus
        vocab_size = len(load_tokenizer(model_directory(config.init)))
    total = flops(config, vocab_size)
    return {
        "train_paper": total.train_paper,
        "train_6nd": total.train_6nd,
        "infer_paper": total.infer_paper,
    }


def sampled_corpus(config: PretrainConfig, place: Path) -> tuple[dict[str, Any], float | None]:
    """Return the changed keys that replace a corpus without shards by its first documents, because
    building it takes minutes or hours, and the rows of a step of the full text. Both are empty if
    the shards exist, or if the sample holds all documents.
    """
    settings, parts = corpus_settings(config), phases(config)
    if all(is_prepared(phase.corpus(settings)) for phase in parts):
        return {}, None
    largest = max(phase.batch_size * phase.max_length_tokens for phase in parts)
    num_bytes = _SAMPLED_BATCHES * largest * _BYTES_PER_TOKEN
    sampled, is_complete = sample_of(
        settings, place, min(max(num_bytes, _LEAST_BYTES), _MOST_BYTES)
    )
    paths = {"corpus": sampled.corpus, "shards": sampled.shards, "tokenizer": sampled.tokenizer}
    changes = {key: None if value is None else str(value) for key, value in paths.items()}
    rows = sum(phase.steps * phase.batch_size for phase in parts) / parts[-1].end
    passes = config.training.passes
    return {f"data.{key}": value for key, value in changes.items()}, (
        None if is_complete else rows * passes
    )


def timed_start(config: PretrainConfig) -> dict[str, Any]:
    """Return the changed keys that leave out the start from corpus statistics: a step takes as long
    from random weights.
    """
    corpus = config.start == "corpus" and config.encoder.family == "electra"
    return {"start": "random"} if corpus else {}


@contextmanager
def _without_news() -> Iterator[None]:
    """Show warnings only: the files that a plan builds are gone when it ends."""
    log = logging.getLogger("road_ray")
    level = log.level
    log.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        log.setLevel(level)


def _measured(config: Config, recipe: Callable[..., object], hosted: bool) -> Measured:
    """Measure the recipe in this process, with its teachers, in a temporary run directory."""
    context, rows_per_step = RunContext(plan_only=True), None
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place, _without_news():
        changes: dict[str, Any] = {"run_dir": place, "console": "quiet"}
        changes |= {"workers": 0, "min_workers": None, "gpus_per_worker": 0.0}
        if isinstance(config, PretrainConfig):
            sampled, rows_per_step = sampled_corpus(config, Path(place))
            changes |= sampled | timed_start(config)
        if hosted:
            changes["distillation.host"] = "process"
        if "max_concurrent" in type(config).model_fields:
            changes["max_concurrent"] = 0
        recipe(override(config, changes).model_copy(update=_NO_TRACKING), context=context)
    assert context.measured is not None, "a recipe ended without training"
    return context.measured if rows_per_step is None else context.measured.scaled(rows_per_step)
