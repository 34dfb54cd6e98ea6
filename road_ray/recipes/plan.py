"""Plan of a verb: three steps of the recipe, on its data and model, are measured; the rest is
arithmetic.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from road_ray.config import Config, override, to_dict
from road_ray.data.corpus.source import is_prepared, sample_of
from road_ray.data.loading import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.distillation.logit_store.teacher_store import expected_bytes
from road_ray.distributed.connection import connected
from road_ray.distributed.estimate import (
    Prices,
    by_workers,
    check_batch,
    check_disk,
    check_memory,
    check_room,
    cost,
    reduced_bytes,
    step_seconds,
)
from road_ray.errors import ConfigError
from road_ray.models.encoder import model_directory
from road_ray.recipes.config import PLANNED, TrackingConfig
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import TeachersConfig
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.flops import cost as flops
from road_ray.recipes.pretraining.pretrain import corpus_settings, phases
from road_ray.recipes.validation import require_init
from road_ray.training.context import RunContext
from road_ray.training.performance.profile import Measured

_BYTES_PER_TOKEN, _SAMPLED_BATCHES = 5, 2
_LEAST_BYTES, _MOST_BYTES = 1 << 18, 4 << 20  # of text, whose rows and tokenizer take seconds
_NO_TRACKING = {"tracking": TrackingConfig()}


def plan(
    verb: str, config: Config, recipe: Callable[..., object], prices: Prices | None = None
) -> dict[str, Any]:
    """Return steps, memory, disk, time and cost of a run.

    Raises ``ClusterError``, ``ConfigError`` or ``ResourceError`` for a run that does not fit.
    """
    if verb not in PLANNED:
        raise ConfigError(f"road {verb} has no plan\n  allowed: {', '.join(PLANNED)}")
    settings = to_dict(config)
    workers, gpus = int(settings["workers"]), float(settings["gpus_per_worker"])
    teachers, gpus_per_teacher = _hosted(config)
    batch = int(settings["data"]["batch_size"])
    _check_batches(settings["data"], workers)
    with connected(settings["address"]) if settings["address"] else nullcontext():
        place = check_room(workers, gpus, teachers, gpus_per_teacher)
    measured = _measured(config, recipe, teachers > 0)
    runs = num_runs(config)
    sharded, passes = bool(settings["training"]["fsdp"]), int(settings["training"]["passes"])
    memory_bytes = _memory_bytes(measured, max(workers, 1), sharded)
    sent = reduced_bytes(measured.gradient_bytes, passes, fsdp=sharded)
    checkpoints = runs * measured.checkpoint_bytes * (measured.keep_checkpoints + 1)
    memory = check_memory(sum(memory_bytes.values()), gpus > 0, workers)
    free = check_disk(Path(settings["run_dir"]), checkpoints)
    seconds = step_seconds(measured.seconds_per_step, sent, workers)
    hours = runs * measured.total_steps * seconds / 3600
    steps = measured.total_steps
    teacher_gpus = (teachers + runs - 1) / runs * gpus_per_teacher  # later generations have one
    return {
        "verb": verb,
        "runs": runs,
        "steps": steps,
        "rows": round(steps * measured.rows_per_step),
        "tokens": round(steps * measured.tokens_per_step),
        "batch_size": batch,
        "phases": _phases(config, measured),
        "parameters": measured.parameters,
        "flops": _flops(config),
        "memory_bytes": memory_bytes | {"available": memory},
        "disk_bytes": {
            "checkpoint": measured.checkpoint_bytes,
            "at_most": checkpoints,
            "store": store_bytes(config),
            "free": free,
        },
        "placement": place,
        "measured_step_seconds": measured.seconds_per_step,
        "measured_data_seconds": measured.data_seconds_per_step,
        "step_seconds": seconds,
        "hours": hours,
        **cost(hours, workers, gpus, prices or Prices(), teacher_gpus=teacher_gpus),
        "currency": (prices or Prices()).currency,
        "by_workers": by_workers(measured.seconds_per_step, sent, batch),
    }


def _hosted(config: Config) -> tuple[int, float]:
    """Return the number of teachers in actors, and the GPUs of each with all its replicas."""
    teaching: Any = getattr(config, "distillation", None)
    if teaching is None or teaching.host != "actors":
        return 0, 0.0
    return teaching.num_asked, teaching.gpus_per_teacher * teaching.replicas


def num_runs(config: Config) -> int:
    """Return the number of equal trainings that a configuration runs."""
    if isinstance(config, TeachersConfig):
        return config.num_teachers * config.num_folds
    return config.distillation.generations if isinstance(config, DistillConfig) else 1


def _memory_bytes(measured: Measured, workers: int, fsdp: bool) -> dict[str, int]:
    """Return the bytes of one worker: activations of its rows, and the rest whole or its shard."""
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
    found = flops(config)
    return {
        "train_paper": found.train_paper,
        "train_6nd": found.train_6nd,
        "infer_paper": found.infer_paper,
    }


def store_bytes(config: Config) -> int:
    """Return the bytes of the complete store of teacher logits, 0 without one.

    Raises ``ResourceError`` when the disk of the store has too little room.
    """
    if not isinstance(config, DistillConfig) or config.distillation.store is None:
        return 0
    tokenizer = load_tokenizer(model_directory(require_init(config.init)))
    more = config.data.unlabelled_sources()
    name = config.data.dataset
    split = load_split(name, "train", config.data, tokenizer, seed=0, unlabelled=more)
    teachers = config.distillation.num_teachers + config.distillation.generations - 1
    need = expected_bytes(split.task.kind, split.features.lengths, teachers)
    check_disk(config.distillation.store, need)
    return need


def _sampled(config: PretrainConfig, place: Path) -> tuple[dict[str, Any], float | None]:
    """Return changes that put the first documents in the place of a corpus without shards, whose
    building takes minutes or hours, and the rows of a step of the whole text; none where the
    shards, or all documents, are there.
    """
    settings, parts = corpus_settings(config), phases(config)
    if all(is_prepared(phase.corpus(settings)) for phase in parts):
        return {}, None
    largest = max(phase.batch_size * phase.max_length_tokens for phase in parts)
    wanted = _SAMPLED_BATCHES * largest * _BYTES_PER_TOKEN
    sampled, whole = sample_of(settings, place, min(max(wanted, _LEAST_BYTES), _MOST_BYTES))
    named = {"corpus": sampled.corpus, "shards": sampled.shards, "tokenizer": sampled.tokenizer}
    changes = {key: None if value is None else str(value) for key, value in named.items()}
    rows = sum(phase.steps * phase.batch_size for phase in parts) / parts[-1].end
    passes = config.training.passes
    return {f"data.{key}": value for key, value in changes.items()}, (
        None if whole else rows * passes
    )


def _measured(config: Config, recipe: Callable[..., object], hosted: bool) -> Measured:
    """Measure the recipe in this process, with its teachers, in a temporary run directory."""
    context, rows_per_step = RunContext(plan_only=True), None
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        changes: dict[str, Any] = {"run_dir": place, "workers": 0, "console": "quiet"}
        if isinstance(config, PretrainConfig):
            sampled, rows_per_step = _sampled(config, Path(place))
            changes |= sampled
        if hosted:
            changes["distillation.host"] = "process"
        if "max_concurrent" in type(config).model_fields:
            changes["max_concurrent"] = 0
        recipe(override(config, changes).model_copy(update=_NO_TRACKING), context=context)
    assert context.measured is not None, "a recipe ended without training"
    return context.measured if rows_per_step is None else context.measured.scaled(rows_per_step)
