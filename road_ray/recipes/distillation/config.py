"""Who teaches, and how they count: what every recipe with teachers shares (`distill` first)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from road_ray.config import Config, to_dict
from road_ray.config.json_file import read_json
from road_ray.data.model_files import locate_model
from road_ray.data.schema import Task
from road_ray.distillation.schedule import Shape, schedule
from road_ray.distillation.teacher_manifest import identity_only
from road_ray.distillation.weighting import Rule, options_of, resolve
from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.encoder import model_directory
from road_ray.models.precision import Precision
from road_ray.recipes.distillation.teacher_list import num_folds, resolve_teachers
from road_ray.recipes.outputs import require_whole_weights
from road_ray.training.monitoring.journal import write_json_atomic

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble


class MatchingConfig(Config):
    """What a student learns besides from inside one teacher, which then also lives in the student's
    process: states are a hundred times the bytes of logits. Source: ROaD part 2, section 4.3.
    """

    hidden_weight: float = Field(0.0, ge=0)  # of the error of the hidden states; ROaD: no gain
    attention_weight: float = Field(0.0, ge=0)  # of that of the attention maps; slower attention
    # uniform: every layer of the student, the teacher's spread over them (24 to 12: every second);
    # last: the last of both; or pairs [student's layer, teacher's layer], counted from 1.
    layers: Literal["uniform", "last"] | tuple[tuple[int, int], ...] = "uniform"
    teacher: int = Field(0, ge=0)  # its number among distillation.teachers

    @property
    def wanted(self) -> bool:
        return self.hidden_weight > 0 or self.attention_weight > 0


class TeachingConfig(Config):
    """How teachers count and where they live, whoever they are. Source: Hinton et al. 2015; ROaD
    part 1, section 3.5.
    """

    kd_weight: float = Field(0.5, ge=0, le=1)  # of the soft loss; the gold has the rest
    temperature: float = Field(
        2.0, ge=0.01, le=1000
    )  # of both sides; T^2 keeps the gradient's size
    # Of kd_weight over the training: constant; linear (teacher annealing, from 1 to 0 whatever
    # kd_weight is); or points [fraction of training, kd_weight] joined by straight lines.
    schedule: Shape = "constant"
    # The mean of the teachers' own losses, weighed by the rule, instead of one loss to their
    # weighted mean.
    average_loss: bool = False
    host: Literal["actors", "process"] = "actors"  # Ray actors, one a teacher, or this process
    # What teachers multiply in. auto: bf16 where the device gains by it; logits keep 8 bits.
    precision: Precision = "auto"
    # A teacher's name of a label -> the task's, where they are not the same; for all teachers.
    label_map: dict[str, str] = Field({})
    lookahead: int = Field(2, ge=0)  # batches asked for ahead of the student
    cpus_per_teacher: float | None = Field(None, gt=0)  # None: one, or less to leave students room
    gpus_per_teacher: float = Field(0.0, ge=0)
    replicas: int = Field(1, ge=1)  # actors with the same teachers; more answer more students
    teachers_per_actor: int = Field(1, ge=1)  # more: they share a process, one after the other
    # Custom ones of each actor, which place it, such as {teacher: 1}.
    resources: dict[str, float] = Field(default_factory=dict)
    timeout_seconds: float = Field(
        120.0, gt=0
    )  # for one answer; then another replica is asked, or the teacher is replaced, once
    start_timeout_seconds: float = Field(120.0, gt=0)  # for all teachers to load
    # A teacher that cannot be had ends the run, or is left out of the mean, with a word.
    on_lost: Literal["stop", "drop"] = "stop"
    # One pool for all runs of the cluster with the same teachers, such as the trials of a sweep.
    shared: bool = False
    # Where the teachers' logits are kept, so that each row is asked once; many runs may share it.
    store: Path | None = None
    check_parity: bool = (
        True  # ask each teacher in every way in use before the first step, and compare
    )
    allow_other_teachers: bool = False  # go on with teachers that the run did not begin with

    @field_validator("schedule")
    @classmethod
    def _in_order(cls, shape: Shape) -> Shape:
        try:
            schedule(shape, 0.5)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return shape


class DistillationConfig(TeachingConfig):
    """The teachers of one data set."""

    # Model or run directories, hub names, or one teachers.json as `road teachers` writes it.
    teachers: tuple[str, ...] = ()
    num_teachers: int = Field(3, ge=1)  # as many as must be named: a forgotten one is an error
    # Born-again: so many students in a row, each the only teacher of the next.
    generations: int = Field(1, ge=1)
    matching: MatchingConfig = MatchingConfig()

    @property
    def num_asked(self) -> int:
        """How many teachers answer for a run."""
        return self.num_teachers * num_folds(self.teachers)


class WeightingConfig(Config):
    """Who of the teachers counts how much; each rule takes those of the options that concern it.
    Source: ROaD part 1, Algorithm 2.
    """

    # mean, correctness, correct_only, confidence, entropy, mean_probabilities or
    # probability_shift: a name entered in distillation/weighting.
    rule: str = "correctness"
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


def start_teacher_pool(
    settings: TeachingConfig, task: Task, directories: list[str], *, beside: int, others: int = 0
) -> ActorEnsemble:
    """The teachers in actors of the connected cluster, with room left for ``beside`` workers and
    ``others`` teachers of this run; those of other runs where they are shared.
    """
    from road_ray.distributed.teachers.pool import specify_pool, start_pool
    from road_ray.distributed.teachers.shared_pool import shared_ensemble

    if settings.on_lost == "drop" and settings.store is not None:
        raise ConfigError(
            "distillation.on_lost is drop and distillation.store is given\n"
            "  allowed: one of them; a store keeps what all teachers say, or nothing"
        )
    same = ("replicas", "teachers_per_actor", "resources", "on_lost", "precision", "label_map")
    wanted = specify_pool(
        directories,
        task,
        num_cpus=settings.cpus_per_teacher,
        num_gpus=settings.gpus_per_teacher,
        beside=beside,
        others=others,
        timeout_seconds=settings.timeout_seconds,
        start_timeout_seconds=settings.start_timeout_seconds,
        **{name: getattr(settings, name) for name in same},
    )
    return shared_ensemble(wanted) if settings.shared else start_pool(wanted)


def weighting_rule(weighting: WeightingConfig, temperature: float = 1.0) -> Rule:
    """The configured rule, with those of the configured options that it takes."""
    settings = to_dict(weighting) | {"temperature": temperature}
    name = settings.pop("rule")
    return resolve(name, **{key: settings[key] for key in options_of(name) if key in settings})


def teacher_directories(settings: DistillationConfig) -> list[str]:
    """Model directories of the teachers, fold after fold if they are of folds. Raises
    ``ConfigError`` when there are not ``num_teachers`` of them (of each fold).
    """
    return locate_teachers(settings.teachers, settings.num_teachers)


def locate_teachers(
    teachers: Sequence[str], count: int | None, key: str = "distillation.teachers"
) -> list[str]:
    """Model directories of the ``teachers`` that ``key`` names; ``count`` None: however many."""
    named, folds = resolve_teachers(teachers, key)
    if count is not None and len(named) != count * folds:
        raise ConfigError(
            f"{key} names {len(named)}: {', '.join(named) or 'none'}\n"
            f"  allowed: exactly distillation.num_teachers = {count}"
            f"{f' for each of {folds} folds' if folds > 1 else ''}\n"
            "  fix: name them all (or one teachers.json), or change num_teachers\n"
            "  nothing was started"
        )
    for name in named:
        require_whole_weights(name)
    try:
        return [str(locate_model(model_directory(name))) for name in named]
    except CheckpointError as error:
        said = str(error).removeprefix("init = ").removeprefix(f"{key}: ")
        raise CheckpointError(f"{key}: {said}") from error


def record_teachers(run_dir: Path, manifest: Mapping[str, Any], settings: TeachingConfig) -> None:
    """Write who teaches, and who taught before; a run goes on with the very teachers that it began
    with, unless others are allowed.
    """
    path, now, earlier = run_dir / "teachers.json", dict(manifest), []
    if path.is_file() and any((run_dir / "checkpoints").glob("step-*")):
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
    """The manifest of the teachers of a run, and the identity of those that it began with."""
    manifest = _manifest_in(run_dir / "teachers.json")
    return manifest, identity_only((manifest.get("before") or [manifest])[0])


def _manifest_in(path: Path) -> dict[str, Any]:
    """Return the manifest that ``record_teachers`` wrote. Raises ``CheckpointError`` for any other
    file.
    """
    fix = "restore it, or delete it: the checkpoint knows the teachers too"
    manifest = read_json(path, fix=fix)
    try:
        for one in (manifest, *manifest.get("before", [])):
            identity_only(one)
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: no manifest of teachers: {error!r}\n  fix: {fix}"
        ) from error
    return manifest
