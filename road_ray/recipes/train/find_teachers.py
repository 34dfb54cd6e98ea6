"""Teachers that a configuration names: found, and checked against task and student."""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from road_ray.data.encode_examples import row_limit
from road_ray.data.load_split import Split, find_dataset
from road_ray.data.model_files import check_hashes, head_or_only, locate_model, read_config
from road_ray.data.task_and_dataset import Span, Task
from road_ray.distillation.cross_tokenizer import TextReader
from road_ray.distillation.teacher_directory import (
    ANSWERS_FOR,
    LABEL_MAP,
    TeacherOptions,
    fingerprint_tokenizer,
    teacher_entry,
)
from road_ray.errors import CheckpointError, ConfigError, counted, did_you_mean
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import model_directory
from road_ray.recipes.preflight_checks import require_plain_head
from road_ray.recipes.train.answer_files import FILE_SHA256, file_entry
from road_ray.recipes.train.config import DistillConfig, MultitaskConfig, TrainConfig
from road_ray.recipes.train.prepare import student_tokenizer
from road_ray.recipes.train.teachers import Teachers, weighting_rule
from road_ray.recipes.train.teaching_config import (
    ANSWER_FILES,
    ON_HUB,
    NamedTeachers,
    is_answer_file,
    resolve_teachers,
)

_KEY = "distillation.teachers"
_LONGEST_ROWS = 256  # a second of tokenization for each teacher
_log = logging.getLogger(__name__)


def find_teachers(config: TrainConfig) -> dict[str, Teachers]:
    """Return the teachers of each data set that has some. Raises ``ConfigError`` for data sets and
    numbers that do not fit, ``CheckpointError`` for a teacher whose tokenizer, labels or head do
    not.
    """
    located = locate_teachers(config)
    if not located or not isinstance(config, DistillConfig | MultitaskConfig):
        return {}
    require_plain_head(config.data)
    settings, tokenizer = config.distillation, student_tokenizer(config)
    options = TeacherOptions(
        student=fingerprint_tokenizer(tokenizer),
        label_map=settings.label_map,
        precision=settings.precision,
        compiled=settings.torch_compile,
    )
    found, store = {}, None  # None: the teachers answer live
    if settings.answers == "once" or (settings.answers == "auto" and settings.store is not None):
        # Absolute, so that it is the same for workers.
        store = (settings.store or config.run_dir / "answers").expanduser().resolve()
    for name, named in located.items():
        _, task = find_dataset(name, config.data)
        try:
            entries = [_entry_of(config, place, name, task, options) for place in named.names]
        except CheckpointError as error:
            if isinstance(config, DistillConfig):
                raise
            raise CheckpointError(f"{_KEY}.{name}: {error}") from error
        counts = named.folds, named.per_row
        found[name] = Teachers(config, task, entries, *counts, tokenizer, options, store)
        # A rule that is none is told now, and not when the teachers have started.
        weighting_rule(config.weighting, num_teachers=named.per_row)
    matching = config.distillation.matching if isinstance(config, DistillConfig) else None
    if matching is not None and matching.enabled:
        first, problem = found[config.data.trained_on[0]].entries[0], ""
        if ANSWERS_FOR in first:
            problem = "has another tokenizer than the student, so its states are of other tokens"
        if problem or FILE_SHA256 in first:
            raise (CheckpointError if problem else ConfigError)(
                f"distillation.matching ({first['directory']}): the first teacher "
                f"{problem or 'is a file, which has no states'}\n"
                "  fix: put a model with the student's tokenizer first, or leave "
                "distillation.matching out; answers are taken of any teacher"
            )
    return found


def _entry_of(
    config: TrainConfig, place: str, dataset: str, task: Task, options: TeacherOptions
) -> dict[str, Any]:
    """Return the entry of a model or file, once it is checked that it fits task and student."""
    if is_answer_file(place):
        return file_entry(place, task, options.label_map)
    place = str(head_or_only(Path(place), task, dataset))  # of a mixture, that of the task
    check_hashes(Path(place), weights=True)  # before any actor starts
    entry = teacher_entry(place, task, options, LABEL_MAP)
    own = longest_row(read_config(locate_model(model_directory(config.init))))
    length = min(row_limit(config.data.max_length_tokens, task), own)
    most = longest_row(read_config(Path(place)))
    if ANSWERS_FOR not in entry and most < length:  # it reads the student's tokens
        raise ConfigError(
            f"{_KEY}: {place} has {most} positions, the student's rows up to {length} tokens\n"
            f"  fix: data.max_length_tokens={most}\n  nothing was started"
        )
    return entry


def locate_teachers(config: object) -> dict[str, NamedTeachers]:
    """Return the teachers by data set, with the places of the models and files. Empty for a
    configuration without teachers.

    Raises ``ConfigError`` unless each row of each data set has ``num_teachers``.
    """
    if not isinstance(config, DistillConfig | MultitaskConfig):
        return {}
    count, several = config.distillation.num_teachers, isinstance(config, MultitaskConfig)
    if isinstance(config, MultitaskConfig):
        _check_named(config)
    located = {}
    for dataset, entries in config.named_teachers.items():
        key = f"{_KEY}.{dataset}" if several else _KEY
        named = resolve_teachers(entries, key)
        remedy = f"{key}=[MODEL,MODEL,...], or the teachers.json that `road teachers` writes"
        if not named.names:
            raise ConfigError(f"{key} names no teacher\n  fix: {remedy}\n  nothing was started")
        if count not in (None, named.per_row):
            raise ConfigError(
                f"{key} lists {counted(named.per_row, 'teacher')} of a row: "
                f"{', '.join(named.names)}\n"
                f"  expected: {count} (distillation.num_teachers)\n"
                f"  fix: {remedy}; or change distillation.num_teachers\n"
                "  nothing was started"
            )
        places = []
        for name in named.names:
            if is_answer_file(name):
                place = Path(name).expanduser()
                if not ON_HUB.fullmatch(name) and not place.is_file():
                    raise ConfigError(
                        f"{key}: {name}: no such file\n  allowed: model directories, and "
                        f"answers in {', '.join(ANSWER_FILES)} or datasets/OWNER/NAME\n"
                        "  nothing was started"
                    )
            else:
                directory = model_directory(name, key)
                try:
                    place = locate_model(directory)
                except CheckpointError as error:
                    raise CheckpointError(f"{key}: {error}") from error
            places.append(str(place))
        located[dataset] = named._replace(names=places)
    return located


def _check_named(config: MultitaskConfig) -> None:
    """Raise ``ConfigError`` for teachers of no data set, data sets without the teachers that each
    must have, and rows without labels of a data set without teachers.
    """
    settings, names = config.distillation, config.data.datasets
    taught, unlabelled = config.named_teachers, config.data.unlabelled
    for key, given, allowed, problem in (
        (_KEY, settings.teachers, names, "no data set of the mix"),
        ("data.unlabelled", unlabelled, taught, "rows without labels need teachers, it has none"),
    ):
        for name in given:
            if name not in allowed:
                raise ConfigError(
                    f"{key}.{name}: {problem}{did_you_mean(name, allowed)}\n"
                    f"  allowed: {', '.join(allowed) or 'none'}\n"
                    "  fix: name one of these, or leave it out; nothing was started"
                )
    forgotten = [name for name in names if name not in settings.teachers]
    if settings.num_teachers is not None and forgotten:
        raise ConfigError(
            f"{_KEY} names none for {', '.join(forgotten)}\n"
            f"  allowed: distillation.num_teachers = {settings.num_teachers} for every data set\n"
            f"  fix: {_KEY}.{forgotten[0]}=DIRECTORY (`road finetune data.dataset={forgotten[0]}` "
            f"makes one), or {_KEY}.{forgotten[0]}=[] to learn it from labels only\n"
            "  nothing was started"
        )


def check_truncation(teachers: Teachers, split: Split) -> None:
    """Raise ``ConfigError`` if a teacher truncates a row that the student reads whole; with
    ``distillation.on_truncated=learn`` log a warning.

    The longest of the rows that the student reads whole are read; of spans, what its windows show.
    A tagged sentence is never truncated.
    """
    if (texts := teachers.texts(split)) is None:
        return
    lengths, data = split.features.lengths, teachers.config.data
    whole = np.arange(len(lengths))
    if not isinstance(split.task.kind, Span):
        whole = np.flatnonzero(lengths < row_limit(data.max_length_tokens, split.task))
    longest = whole[np.argsort(-lengths[whole], kind="stable")][:_LONGEST_ROWS]
    shown = texts(longest, int(lengths.max(initial=1)))
    for number, entry in enumerate(teachers.models):
        if ANSWERS_FOR not in entry:
            continue
        reader = TextReader(entry["directory"], teachers.task)
        cut = [any(row.is_cut for row in rows) for rows in reader.rows(shown["texts"])]
        message = (
            f"teacher {number} ({entry['directory']}) reads at most {reader.longest} tokens: of "
            f"the {len(longest)} longest rows of {split.dataset.name} it truncates {sum(cut)}, "
            "which the student reads whole"
        )
        if any(cut) and teachers.config.distillation.on_truncated == "learn":
            counted_as = f"the journal counts such rows as teachers/cut_{number}"
            _log.warning("%s; it answers for their beginning, and %s", message, counted_as)
        elif any(cut):
            raise ConfigError(
                f"{message}\n"
                "  allowed: teachers that read whole rows; with distillation.on_truncated=learn, "
                "answers for the beginning of a row\n"
                "  fix: take a teacher that reads longer rows, lower data.max_length_tokens, or "
                "set distillation.on_truncated=learn\n  nothing was started"
            )
