"""Distil: a student learns from gold and from an ensemble's weighted logits, drawn on the fly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from road_ray.config import Config, override, to_dict
from road_ray.data import catalog
from road_ray.data.batches import Batch
from road_ray.data.mixing import accumulated
from road_ray.data.tokenizer import load_tokenizer
from road_ray.distillation.ensemble import Ensemble, LocalEnsemble, annotate
from road_ray.distillation.identity import check_teacher, locate, teacher_manifest
from road_ray.distillation.weighting import Weighting, options_of, resolve
from road_ray.distributed.launch import connected, launch
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.encoder import model_directory
from road_ray.objectives.distilled import Distilled
from road_ray.recipes.finetune import FinetuneConfig, fit, prepare, require_init
from road_ray.recipes.run import Run, finished, opened
from road_ray.training.journal import write_json_atomic
from road_ray.training.loop import identity_of
from road_ray.training.worker import Worker

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble


class DistillationConfig(Config):
    """The teachers and how they count. Source: Hinton et al. 2015; ROaD part 1, section 3.5."""

    # Model or run directories, hub names, or one teachers.json as `road teachers` writes it.
    teachers: tuple[str, ...] = ()
    num_teachers: int = Field(3, ge=1)  # as many as must be named: a forgotten one is an error
    kd_weight: float = Field(0.5, ge=0, le=1)  # of the soft loss; the gold has the rest
    temperature: float = Field(
        2.0, ge=0.01, le=1000
    )  # of both sides; T^2 keeps the gradient's size
    host: Literal["actors", "process"] = "actors"  # Ray actors, one a teacher, or this process
    lookahead: int = Field(2, ge=0)  # batches asked for ahead of the student
    cpus_per_teacher: float | None = Field(None, gt=0)  # None: one, or less to leave students room
    gpus_per_teacher: float = Field(0.0, ge=0)
    timeout_seconds: float = Field(
        120.0, gt=0
    )  # for one answer; then the teacher is replaced, once


class WeightingConfig(Config):
    """Who of the teachers counts how much. Source: ROaD part 1, Algorithm 2."""

    rule: str = "correctness"  # a name of distillation/weighting.py
    wrong: float = Field(0.75, ge=0, le=1)  # W: the weight of a teacher that errs
    all_wrong: Literal["scale", "mean", "drop"] = (
        "scale"  # when none is right: W each, 1 each, no distillation
    )
    span_correctness: Literal["independent", "joint"] = (
        "independent"  # start and end judged apart or together
    )

    @field_validator("rule")
    @classmethod
    def _entered(cls, rule: str) -> str:
        try:
            options_of(rule)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return rule


class DistillConfig(FinetuneConfig):
    """A student run: fine-tuning plus teachers."""

    run_dir: Path = Path("runs/distill")
    distillation: DistillationConfig = DistillationConfig()
    weighting: WeightingConfig = WeightingConfig()


def distill(config: DistillConfig, ensemble: ActorEnsemble | None = None) -> Run:
    """Train and evaluate a student. The teachers live as long as the run, unless ``ensemble``
    brings
    them: then they are its owner's, and ``distillation.teachers`` need not be given.
    """
    if ensemble is not None:
        named = ensemble.handles.directories
        config = override(
            config, {"distillation.teachers": list(named), "distillation.num_teachers": len(named)}
        )
    return finished(config) or _run(config, ensemble)


def _run(config: DistillConfig, ensemble: ActorEnsemble | None) -> Run:
    directories = teacher_directories(config.distillation)
    check(config, directories)
    with opened(config) as run_dir, ExitStack() as stack:
        task = catalog.task(config.data.dataset)
        _record_teachers(run_dir, teacher_manifest(directories, task))
        if ensemble is None and config.distillation.host == "actors":
            stack.enter_context(connected(config.address))
            ensemble = stack.enter_context(_pool(config, directories))
        metrics = launch(
            main,
            config,
            directories,
            ensemble,
            workers=config.workers,
            gpus_per_worker=config.gpus_per_worker,
            address=config.address,
            scratch=run_dir,
        )
    return Run(run_dir, metrics)


def _record_teachers(run_dir: Path, manifest: dict[str, Any]) -> None:
    """Write who teaches; a run that goes on must have the very teachers that it began with."""
    path = run_dir / "teachers.json"
    if path.is_file() and any((run_dir / "checkpoints").glob("step-*")):
        before = json.loads(path.read_text(encoding="utf-8"))
        if before != json.loads(json.dumps(manifest)):
            raise CheckpointError(
                f"{run_dir}: this run began with other teachers; {path} names them\n"
                "  fix: restore them, or give another run_dir to start afresh\n"
                "  kept: the run, as it is"
            )
    write_json_atomic(path, manifest)


def _pool(config: DistillConfig, directories: list[str]) -> ActorEnsemble:
    from road_ray.distributed.teachers import start

    settings = config.distillation
    return start(
        directories,
        catalog.task(config.data.dataset),
        num_cpus=settings.cpus_per_teacher,
        num_gpus=settings.gpus_per_teacher,
        beside=config.workers,
        timeout_seconds=settings.timeout_seconds,
    )


def main(
    config: DistillConfig, worker: Worker, directories: list[str], pool: ActorEnsemble | None
) -> dict[str, float]:
    """What every worker does; without a pool each hosts the teachers itself."""
    prepared = prepare(config, worker)
    settings = config.distillation
    ensemble: Ensemble = pool or LocalEnsemble.load(
        directories, prepared.task, device=worker.device
    )
    objective = Distilled(
        prepared.model, kd_weight=settings.kd_weight, temperature=settings.temperature
    )
    weigh = rule(config)
    manifest = json.loads((config.run_dir / "teachers.json").read_text(encoding="utf-8"))
    prepared.identity.update(identity_of(teachers=manifest))
    prepared.lineage.update(
        distillation={"kd_weight": settings.kd_weight, "temperature": settings.temperature},
        weighting=to_dict(config.weighting),
        teachers=manifest["teachers"],
    )

    def steps(start: int) -> Iterator[list[Batch]]:
        passes = config.training.passes
        batches = annotate(
            prepared.stream.since(start * passes), ensemble, weigh, settings.lookahead
        )
        return accumulated((dict(batch) for batch in batches), passes)

    return fit(config, worker, prepared, objective, steps)


def rule(config: DistillConfig) -> Weighting:
    """The configured weighting rule, with those of the configured options that it takes."""
    settings = to_dict(config.weighting)
    name = settings.pop("rule")
    return resolve(name, **{key: settings[key] for key in options_of(name) if key in settings})


def teacher_directories(settings: DistillationConfig) -> list[str]:
    """Model directories of the teachers. Raises ``ConfigError`` when there are not ``num_teachers``
    of them.
    """
    named = list(settings.teachers)
    if len(named) == 1 and named[0].endswith(".json"):
        named = _listed(Path(named[0]).expanduser())
    if len(named) != settings.num_teachers:
        raise ConfigError(
            f"distillation.teachers names {len(named)}: {', '.join(named) or 'none'}\n"
            f"  allowed: exactly distillation.num_teachers = {settings.num_teachers}\n"
            "  fix: name them all (or one teachers.json), or change num_teachers\n"
            "  nothing was started"
        )
    try:
        return [str(locate(model_directory(name))) for name in named]
    except CheckpointError as error:
        text = str(error).replace("init = ", "distillation.teachers: ", 1)
        raise CheckpointError(text) from error


def _listed(path: Path) -> list[str]:
    """The directories in a ``teachers.json``."""
    try:
        listing = json.loads(path.read_text(encoding="utf-8"))
        return [str(teacher["directory"]) for teacher in listing["teachers"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"distillation.teachers = {path}: no list of teachers: {error!r}\n"
            "  allowed: a teachers.json as `road teachers` writes it, or the directories themselves"
        ) from error


def check(config: DistillConfig, directories: list[str]) -> None:
    """Raises ``CheckpointError`` for a teacher whose tokenizer, labels or head do not fit the
    student.
    """
    task = catalog.task(config.data.dataset)
    tokenizer = load_tokenizer(model_directory(require_init(config.init)))
    for directory in directories:
        check_teacher(directory, task, tokenizer)
