"""Teachers in a configuration: loss, schedule and hosts of distillation, and weights of teachers.

``DistillationConfig`` has the teachers of one data set, ``MixTeachingConfig`` those of a mixture;
what they share is ``TeachingConfig``. ``read_teacher_list`` reads a ``teachers.json``, which may
have folds. ``find_teachers.py`` and ``teachers.py`` consume them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from road_ray.config import Config
from road_ray.config.base import ByContent, Free
from road_ray.distillation.schedule import Schedule, Shape
from road_ray.errors import ConfigError
from road_ray.models.config import Precision
from road_ray.recipes.run_directory.input_files import model_files
from road_ray.system.own_names import name_of


class MatchingConfig(Config):
    """Distillation from the hidden states and attention maps of the first teacher. It runs in the
    student's process, because its states are a hundred times larger than its logits. Source: ROaD
    part 2, section 4.3.
    """

    hidden_weight: float = Field(0.0, ge=0)
    """Weight of the mean squared error between hidden states, after a learned projection to the
    teacher's width. 0: off. ROaD reports no gain over logits alone (part 2, section 4.3)."""
    attention_weight: float = Field(0.0, ge=0)
    """Weight of the squared error between attention maps. 0: off. Other values use the slower eager
    attention. Source: ROaD's note on decoupled transformers, which uses 0.5."""
    layers: Literal["uniform", "last"] | tuple[tuple[int, int], ...] = "uniform"
    """Matched layers. ``uniform``: every student layer with an evenly spread teacher layer (24 to
    12: every second one, as in ROaD part 2). ``last``: the last layers of both. Or pairs [student
    layer, teacher layer], counted from 1."""

    @property
    def enabled(self) -> bool:
        """True if any weight is above 0."""
        return self.hidden_weight > 0 or self.attention_weight > 0


class TeachingConfig(Config):
    """Distillation loss, and the hosts, resources and time limits of the teachers. Source: Hinton
    et al. 2015; ROaD part 1, section 3.5.
    """

    num_teachers: Free[int | None] = Field(None, ge=1)
    """Number of teachers that each row must have, files among them, so that a forgotten one is an
    error; in a mixture of every data set, where one without teachers then needs the entry ``[]``.
    None: as many as ``distillation.teachers`` names. ROaD distils from three."""
    kd_weight: float = Field(0.5, ge=0, le=1)
    """Weight of the distillation loss, from 0 to 1; the label loss gets the rest: (1 - kd_weight) *
    CE + kd_weight * T^2 * KL. 0: labels only. 1: teachers only. ROaD does not print its value; 0.5
    is our choice."""
    temperature: float = Field(2.0, ge=0.01, le=1000)
    """Temperature T of teacher and student logits in the distillation loss. The factor T^2 keeps
    the size of the gradient (Hinton et al. 2015). Larger values weigh unlikely classes more. ROaD
    tunes it without printing it; 2 is our choice."""
    schedule: Shape = "constant"
    """Course of ``distillation.kd_weight`` over the training. ``constant``: unchanged. ``linear``:
    from 1 to 0, regardless of its value (teacher annealing, Clark et al. 2019). Or points [fraction
    of training, kd_weight], joined by straight lines."""
    average_loss: bool = False
    """Average the losses to each teacher, weighted by ``weighting.rule``. False: one loss to the
    weighted mean of the teachers' logits, as in ROaD."""
    host: Free[Literal["actors", "process"]] = "actors"
    """Place of the teachers. ``actors``: Ray actors, which several workers and runs can use.
    ``process``: in every training process, which needs no Ray but the memory for all teachers."""
    precision: Precision = "auto"
    """Number format of the teachers' matrix products. ``fp32``: full precision. ``bf16``: autocast
    to bfloat16, logits have 8 significant bits. ``auto``: bf16 where the device is faster with it.
    Teachers of numbers compute in fp32."""
    torch_compile: bool = False
    """Compile the teachers with ``torch.compile``, once for batches of all lengths. Meant for GPUs
    and thousands of steps, not measured on one: the first answer waits for the compiler, minutes on
    a CPU. Raise ``distillation.timeout_seconds`` where that takes longer. Parts that cannot be
    compiled run uncompiled."""
    label_map: dict[str, str | dict[str, str]] = Field({})
    """Label names of the teachers' heads mapped to those of the task, such as
    ``{LABEL_0: negative}``. A teacher's directory or file mapped to such names is a map for it.
    Empty: the names are equal but for case, spaces and hyphens."""
    lookahead: Free[int] = Field(2, ge=0)
    """Number of batches that are sent to the teachers ahead of the student's step. 0: student and
    teachers take turns. More hides more of the teachers' time and takes memory. Our choice."""
    replicas: Free[int] = Field(1, ge=1)
    """Number of actors with the same teachers. More of them answer more requests a second and
    survive the loss of a machine."""
    resources: Free[dict[str, float]] = Field({})
    """Ray resources that each actor requests, such as ``{CPU: 2, GPU: 0.5, teacher: 1}``. ``CPU``
    is 1 by default, or less where the cluster is small, so that teachers take at most half of it
    and every worker finds a core; ``GPU`` is 0, and a fraction shares one device. Resources of your
    own place the actors on machines that offer them."""
    timeout_seconds: Free[float] = Field(120.0, gt=0)
    """Time limit of one answer, in seconds. After it the actor is restarted once, or another
    replica is asked; a teacher that does not answer then ends the run, which the same command
    resumes. Raise it for large teachers on slow machines. Our choice."""
    on_truncated: Literal["stop", "learn"] = "stop"
    """Action where a teacher with another tokenizer truncates a row that the student reads whole.
    ``stop``: an error before anything starts. ``learn``: the student learns from the teacher's
    answer for the beginning of the row; of spans, characters behind it get its lowest probability.
    Rows that the student truncates as well do not count. Our choice."""
    answers: Free[Literal["auto", "live", "once"]] = "auto"
    """Time of the teachers' answers. ``live``: beside the student's steps, in every epoch.
    ``once``: to all training rows, before the first step, into a table of each teacher; every
    further epoch, student and seed reads it. ``auto``: once if ``distillation.store`` is given,
    else live."""
    store: Free[Path | None] = None
    """Directory of the tables of ``distillation.answers=once``; many runs may share it. None:
    ``answers`` in the run directory. Trials of a sweep share that of the sweep by default."""
    check_parity: Free[bool] = True
    """Compare the logits of the source in use (actor, table) with the model's on a few rows before
    the first step; a difference is an error. False skips the seconds that it takes."""

    @model_validator(mode="after")
    def _tables_are_read(self) -> Self:
        if self.answers == "live" and self.store is not None:
            raise ValueError(
                "distillation.answers is live and distillation.store is given; allowed: one of "
                "them; a store keeps answers that are given once"
            )
        return self

    @field_validator("schedule")
    @classmethod
    def _in_order(cls, shape: Shape) -> Shape:
        try:
            Schedule(shape)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return shape


class DistillationConfig(TeachingConfig):
    """Teachers of one data set and the distillation loss. Source: Hinton et al. 2015; ROaD part 1,
    sections 3.5 and 5.
    """

    teachers: Annotated[tuple[str, ...], ByContent()] = ()
    """Teachers: model or run directories, hub names, files of answers (CSV, TSV, JSONL or Parquet,
    such as ``road predict`` writes), or one ``teachers.json`` of ``road teachers``, which may have
    files beside it. Required."""
    generations: int = Field(1, ge=1)
    """Number of born-again generations (Furlanello et al. 2018): each student is the only teacher
    of the next. 1: one student. ROaD found no gain from more."""
    matching: MatchingConfig = MatchingConfig()
    """Distillation from hidden states and attention maps, besides logits. Off by default."""


RULES = (
    *("mean", "correctness", "correct_only", "confidence", "entropy"),
    *("mean_probabilities", "probability_shift"),
)
"""Weighting rules of ``distillation/weighting.py``, named here so that the configuration loads
without torch."""


class WeightingConfig(Config):
    """Weights of the teachers in their mean, for each example. A rule reads the options that
    concern it. Source: ROaD part 1, Algorithm 2.
    """

    rule: Annotated[str, name_of("rule", RULES)] | None = Field(
        None, json_schema_extra={"anyOf": [{"enum": [None, *RULES]}, {"type": "string"}]}
    )
    """Weighting rule. None: ``correctness`` for several teachers; ``mean`` for one, which is plain
    knowledge distillation. ``mean``: equal weights. ``correctness``: ROaD's Algorithm 2.
    ``correct_only``: correct teachers only. ``confidence``: by the probability of the label
    (CA-MKD). ``entropy``: by certainty (EBKD). ``mean_probabilities``: mean of probabilities
    (MT-DNN-KD). ``probability_shift``: mean, whose top logit is swapped with the label's where it
    errs (TextBrewer). Or a function of your own, ``package.module:name``."""
    wrong: float = Field(0.75, ge=0, le=1)
    """Weight W of a teacher that errs on an example, from 0 to 1; correct teachers share the rest.
    1 is the plain mean. 0.75 is ROaD's typical value (part 1, Algorithm 2)."""
    all_wrong: Literal["scale", "mean", "drop"] = "scale"
    """Weights where all teachers err. ``scale``: ``weighting.wrong`` each, as Algorithm 2 reads.
    ``mean``: 1 each. ``drop``: 0 each, so that the example learns from its label only. The paper
    leaves the case open; ``scale`` is our choice."""
    span_correctness: Literal["independent", "joint"] = "independent"
    """Correctness of an answer span, or of a row with several labels. ``independent``: start and
    end, or each label, are weighted separately. ``joint``: a teacher is correct if both, or all
    labels, are. The paper leaves it open; ``independent`` is our choice."""


class MixTeachingConfig(TeachingConfig):
    """Teachers of the data sets of a mixture and the distillation loss. Source: ROaD part 1,
    section 3.5 (multi-task training with distillation).
    """

    teachers: Annotated[dict[str, str | tuple[str, ...]], ByContent()] = Field({})
    """Teachers by data set: a model or run directory, a hub name, a file of answers, a
    ``teachers.json``, or a list of directories and files, or of a ``teachers.json`` and files. Data
    sets without an entry learn from labels only. Empty: no distillation."""
    temperature: float = Field(4.0, ge=0.01, le=1000)
    """Temperature T of teacher and student logits in the distillation loss. ROaD uses more than 3
    in this stage without naming the value; 4 is our choice."""


ANSWER_FILES = (".csv", ".tsv", ".jsonl", ".parquet")
ON_HUB = re.compile(r"datasets/([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(\w+))?")
"""A data set of answers on the hub: ``datasets/OWNER/NAME[@REVISION][/SPLIT]``."""


class _Entry(BaseModel):
    directory: str
    adapter: str | None = None
    fold: int = 0


class _List(BaseModel):
    teachers: list[_Entry] = Field(min_length=1)
    num_folds: int = 1


class NamedTeachers(NamedTuple):
    """Teachers of a data set as they are named: models, fold after fold, and files of answers,
    which stand behind the models where there are folds.
    """

    names: list[str]
    folds: int = 1  # 1: they have seen all of the data

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return [name for name in self.names if not is_answer_file(name)]

    @property
    def per_row(self) -> int:
        """Number of teachers that answer each row: the models of a fold, and all files."""
        files = sum(map(is_answer_file, self.names))
        return (len(self.names) - files) // self.folds + files


def read_teacher_list(path: Path, key: str = "distillation.teachers") -> NamedTeachers:
    """Return the teachers in a ``teachers.json``. A relative directory is below the file's own
    directory, or else below the working directory.

    Raises ``ConfigError`` for another file.
    """
    try:
        listed = _List.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"no list of teachers: {' '.join(str(error).split())[:200]}"
        raise ConfigError(
            f"{key} = {path}: {problem if path.is_file() else 'no such file'}\n"
            "  allowed: the teachers.json of a finished `road teachers`"
            f"{', or a list of model directories' * (key != 'init')}\n"
            "  fix: check the path; to resume `road teachers`, run the same command"
        ) from error
    entries = sorted(listed.teachers, key=lambda entry: entry.fold)  # keeps the order in a fold
    names = [entry.adapter or entry.directory for entry in entries]
    names = [str(near) if (near := path.parent / name).exists() else name for name in names]
    counts = [sum(entry.fold == fold for entry in entries) for fold in range(listed.num_folds)]
    files = [name for name in names if listed.num_folds > 1 and is_answer_file(name)]
    if len(set(counts)) > 1 or sum(counts) != len(names) or files:
        raise ConfigError(
            f"{key} = {path}: {counts} teachers of {listed.num_folds} folds, "
            f"{len(names)} in all, {len(files)} of them files\n"
            "  allowed: equally many models of each fold\n"
            "  fix: name files beside the list: [teachers.json,answers.csv]"
        )
    return NamedTeachers(names, listed.num_folds)


def is_answer_file(name: str) -> bool:
    """Return True if a teacher's name is that of a file or hub data set of answers and not of a
    model.
    """
    if ON_HUB.fullmatch(name):
        return not Path(name).is_dir()
    return name.removesuffix(".gz").endswith(ANSWER_FILES) and not Path(name).expanduser().is_dir()


def resolve_teachers(teachers: Sequence[str], key: str = "distillation.teachers") -> NamedTeachers:
    """Return the teachers, named directly or by a ``teachers.json``. Files of answers beside a list
    follow its models; they have no folds.

    Raises ``ConfigError`` for a list of folds beside other models, which have none.
    """
    names, num_folds = list[str](), 1
    for name in teachers:
        is_list = name.endswith(".json")
        listed = (
            read_teacher_list(Path(name).expanduser(), key) if is_list else NamedTeachers([name])
        )
        names, num_folds = [*names, *listed.names], max(num_folds, listed.folds)
    if num_folds > 1 and len(NamedTeachers(list(teachers)).models) > 1:
        raise ConfigError(
            f"{key}: a list has teachers of {num_folds} folds, which stand alone or beside files "
            "of answers\n  fix: the answers of the others as files: road predict MODEL FILE"
        )
    if any(name.endswith(".json") for name in teachers):
        names.sort(key=is_answer_file)
    return NamedTeachers(names, num_folds)


def teacher_files(teachers: Sequence[str]) -> list[Path]:
    """Return the local files that determine the answers of the teachers."""
    names = resolve_teachers(teachers).names
    local = (name for name in names if is_answer_file(name) and not ON_HUB.fullmatch(name))
    files = [Path(name).expanduser() for name in local]
    return [*files, *(path for name in names for path in model_files(name))]
