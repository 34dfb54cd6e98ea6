"""Answers from elsewhere: a file or hub data set of predictions, of labels by people or of an LLM's
answers is a teacher like a model.

A file is read and checked before the training. Its answers become a table as those of a model that
answers once, but in fp32 and keyed by the texts of a row. A row that it does not answer is NaN in
the logits, and the weighting rule sees the other teachers alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import (
    UNKNOWN,
    ChoiceExample,
    Example,
    TextExample,
)
from road_ray.data.load_split import Split, read_examples, root_of
from road_ray.data.readers.hub import load_rows
from road_ray.data.readers.tables import Row, names_of_features, table_rows, with_class_names
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Dataset,
    Hub,
    MultiLabel,
    Regress,
    Task,
    label_text,
    listed_labels,
    plain_label,
)
from road_ray.distillation.answer_table import Keys, keys_of_texts
from road_ray.distillation.ensemble import Ensemble
from road_ray.distillation.stored_ensemble import TeacherTables
from road_ray.errors import ConfigError, DataError, did_you_mean, shorten
from road_ray.models.label_order import LabelMap, label_order, names_for
from road_ray.recipes.train.teaching_config import ON_HUB
from road_ray.system.files import sha256_of

FILE_SHA256 = "file_sha256"  # of a teacher that is a file, in a manifest
LEAST_PROBABILITY = 1e-8  # of which the logarithm is taken where a file says 0
_TOLERANCE = 1e-3
# Columns of each label, the most exact first, and the objects that JSONL and Parquet have instead.
_LOGIT, _LOGPROB = "logit_", "logprob_"
_PREFIXES = {_LOGIT: "logits", _LOGPROB: "logprobs", "probability_": "probabilities"}
_PREFIXES |= {"score_": "scores"}
_NUMBER = ("value", "label")  # columns of a regression
_FORM = (
    "columns logit_LABEL, logprob_LABEL, probability_LABEL or score_LABEL of every label, or label "
    "(a list labels where a row has several) with confidence; value for numbers"
)

Texts = tuple[str, ...]
Answer = Sequence[float]  # one logit a label
Reader = Callable[[Row, str], Answer | None]
_log = logging.getLogger(__name__)


def file_entry(path: str, task: Task, label_map: LabelMap | None) -> dict[str, Any]:
    """Return the entry of a file in the manifest of teachers. Raises ``ConfigError`` for a task
    whose answers are not one row of numbers.
    """
    if not isinstance(task.kind, Classify | MultiLabel | Regress | Choose):
        raise ConfigError(
            f"distillation.teachers: {path}: task {task.name!r} is of kind "
            f"{type(task.kind).__name__}\n  allowed: answers from a file for classes or a number "
            "of a text or pair, or for choices\n  fix: name a model"
        )
    entry: dict[str, Any] = {"directory": path, FILE_SHA256: _sha256(path)}
    if isinstance(task.kind, Classify | MultiLabel):
        entry |= {"labels": task.kind.labels, "label_map": names_for(label_map, Path(path))}
    return entry


def _sha256(path: str) -> str:
    """Return that of a file, or of the rows of a data set of the hub."""
    if ON_HUB.fullmatch(path) is None:
        return sha256_of(Path(path))
    digest = hashlib.sha256()
    for _, row in _rows(path):
        digest.update(json.dumps(row, default=str).encode())
    return digest.hexdigest()


def _rows(path: str) -> Iterable[tuple[str, Row]]:
    """Return the rows of a file, or of a split of a data set of the hub, each with its place."""
    on_hub = ON_HUB.fullmatch(path)
    if on_hub is None:
        return table_rows(Path(path))
    name, revision, split = on_hub.groups()
    try:
        rows = load_rows(Hub(name, revision=revision), split or "train")
    except Exception as error:  # datasets raises many types when offline, gated or renamed
        raise DataError(
            f"distillation.teachers: {path} could not be loaded from the hub: "
            f"{type(error).__name__}: {error}\n  fix: check the network, and the name: "
            "datasets/OWNER/NAME[@REVISION][/SPLIT]"
        ) from error
    placed = ((f"hf://{path}:{number}", row) for number, row in enumerate(rows, 1))
    return with_class_names(placed, names_of_features(rows.features), ())


def read_files(
    files: Iterable[tuple[str, TeacherTables]],
    split: Split,
    source: SourceConfig,
    label_map: LabelMap | None,
    *,
    alone: bool,
) -> list[Callable[[], None]]:
    """Read files of answers to the training rows ``split``, and return functions that write the
    answers to their tables. Raises the errors of ``read_answers``; ``alone`` without models, also
    ``DataError`` for rows that have no label and no answer.
    """
    # Numbers of rows are those of the file: also of rows that are held out or have no label.
    columns = replace(split.dataset.columns, label=None)
    file = replace(split.dataset, dev_fraction=None, columns=columns)
    rows, answered = None, set[Texts]()
    writers: list[Callable[[], None]] = []
    for path, tables in files:
        rows = rows or read_examples(file, "train", root_of(file.name, source))
        answers = read_answers(path, split, rows, label_map)
        answered.update(answers)
        writers.append(partial(_write, answers, tables))
    if not writers:  # tasks of spans and tags have none
        return []
    labels = split.features.gold["labels"].reshape(len(split.features), -1)  # several of a row
    unknown = split.features.example[(labels == UNKNOWN).all(-1)]
    lost = [split.examples[n] for n in unknown if texts_of(split.examples[n]) not in answered]
    if alone and lost:
        raise DataError(
            f"{lost[0].where}: {len(lost)} rows of {split.dataset.name} have no label, and no "
            "teacher answers them\n  fix: leave them out, or add a model to distillation.teachers"
        )
    return writers


def read_answers(
    path: str, split: Split, training_rows: Sequence[Example], label_map: LabelMap | None
) -> dict[Texts, Answer]:
    """Return the answers of a file to rows of ``split``. ``training_rows`` are all rows of its
    training files, to which numbers of rows refer.

    A row of the file names a training row by ``row``, or by the text columns of the data set or
    ``text`` and ``text_pair``; without these its rows are all training rows in their order. Raises
    ``DataError`` for rows that are not there or are answered twice, and values that are no answers.
    """
    rows, dataset = [texts_of(row) for row in training_rows], split.dataset
    known, found = {*rows, *map(texts_of, split.examples)}, dict[Texts, Answer]()
    names, count, taken = None, 0, set[int]()
    for count, (where, cells) in enumerate(_rows(path), 1):
        row = _flat(cells)
        if row.keys() != names:
            by_number = isinstance(split.task.kind, Choose)
            names, columns = row.keys(), [] if by_number else _text_columns(dataset, row)
            read = _reader(where, Path(path), names, split, label_map)
        answer = read(row, where)
        if columns:
            texts = tuple(str(row[column]) for column in columns)
            twice = found.get(texts, answer) != answer
        else:
            number = _row_number(row, count - 1, training_rows, dataset)
            texts, twice = ("",) if number is None else rows[number], number in taken
            taken.add(number or 0)
        if texts not in known or twice:
            seen = " | ".join(texts)[:80] if columns else f"row {row.get('row', count - 1)}"
            raise DataError(
                f"{where}: {seen!r} is "
                f"{'answered twice, and not alike' if twice else f'no row of {dataset.name}'}\n"
                f"  allowed: a column row, from 0 to {len(rows) - 1}; the text columns of the data "
                "set; or all rows of its training file in their order"
            )
        if answer is not None:
            found.setdefault(texts, answer)
    if names is not None and not columns and "row" not in names and count != len(rows):
        raise DataError(
            f"{path}: {count} rows without their numbers or texts; {dataset.name} has {len(rows)}\n"
            "  allowed: as many\n  fix: add a column row, or the texts (road predict --keep COLUMN)"
        )
    answers = {}
    for example in split.examples:
        texts = texts_of(example)
        turned = found.get(texts[::-1]) if example.id.endswith(" turned") else None
        if (given := found.get(texts, turned)) is not None:
            answers[texts] = given
    if not answers:
        raise DataError(f"{path}: answers none of the {len(split.examples)} training rows")
    _log.info("%s: answers to %d of %d training texts", path, len(answers), len(known))
    return answers


def _write(answers: Mapping[Texts, Answer], tables: TeacherTables) -> None:
    """Write the answers that the tables lack."""
    keys, values = keys_of_texts(answers), np.array(list(answers.values()), np.float32)
    if not tables.holds(keys).all():
        with tables.labelling():
            new = ~tables.holds(keys)  # of those that another process has written meanwhile, too
            if new.any():
                counts = np.full(int(new.sum()), values.shape[1], np.int64)
                tables.add(keys[new], counts, values[new].ravel())


def texts_of(example: Example) -> Texts:
    """Return the texts that are the key of a row."""
    assert isinstance(example, TextExample | ChoiceExample)
    return example.texts


def _flat(row: Row) -> dict[str, Any]:
    """Return a row whose objects of values by label are columns."""
    flat = {str(name): cell for name, cell in row.items()}
    for prefix, name in _PREFIXES.items():
        if isinstance(flat.get(name), Mapping):
            flat |= {f"{prefix}{label}": cell for label, cell in flat.pop(name).items()}
    return flat


def _text_columns(dataset: Dataset, columns: Collection[str]) -> list[str]:
    """Return the columns of a file that have the texts of a row; none where it has numbers."""
    if "row" in columns:
        return []
    own = [str(name).split("|") for name in dataset.columns.text]
    for names in (own, [["text"], ["text_pair"]][: len(own)]):
        found = [next((name for name in options if name in columns), None) for options in names]
        if None not in found:
            return [name for name in found if name is not None]
    return []


def _row_number(
    row: Row, place: int, training_rows: Sequence[Example], dataset: Dataset
) -> int | None:
    """Return the number of a training row: ``row``, or else the place in the file. None for one
    that is not there, or has another id than the row of the file.
    """
    try:
        number = int(str(row.get("row", place)))
    except ValueError:
        return None
    if not 0 <= number < len(training_rows):
        return None
    given = None if dataset.columns.id is None or "row" in row else row.get("id")
    return number if given in (None, "", training_rows[number].id) else None


def _reader(
    where: str, place: Path, columns: Collection[str], split: Split, label_map: LabelMap | None
) -> Reader:
    """Return the function that reads the logits of a row with these columns; None for a row without
    an answer.
    """
    kind, dataset = split.task.kind, split.dataset
    if isinstance(kind, Regress) and (column := next(filter(columns.__contains__, _NUMBER), None)):
        return partial(_numbers, _LOGIT, [column])
    if isinstance(kind, Choose) and {"choice", *_PREFIXES.values()} & {*columns}:
        return partial(_of_choices, [str(number) for number in range(kind.choices)])
    if isinstance(kind, Classify | MultiLabel):
        several = isinstance(kind, MultiLabel)
        renamed = {**dataset.label_map, **names_for(label_map, place)}
        for prefix in _PREFIXES:
            given = [column for column in columns if column.startswith(prefix)]
            if given:
                labels = dict(enumerate(column.removeprefix(prefix) for column in given))
                order = label_order(place, labels, split.task, renamed, "distillation.label_map")
                ordered = [given[n] for n in order or range(len(given))]
                return partial(_numbers, prefix, ordered, several=several)
        if "label" in columns and not several:
            return partial(_of_label, kind.labels, renamed)
        if "labels" in columns and several:
            return partial(_of_labels, kind.labels, renamed, dataset.columns.separator)
        if several and {*kind.labels} <= {*columns}:  # columns of 0 and 1
            return partial(_numbers, "", kind.labels, several=True)
    raise DataError(f"{where}: no answer in columns {', '.join(columns)}\n  allowed: {_FORM}")


def _numbers(
    prefix: str, columns: Sequence[str], row: Row, where: str, several: bool = False
) -> Answer | None:
    """Return the logits in columns of logits, log-probabilities or probabilities, which are the
    labels' own where a row may have ``several``.
    """
    cells = [row[column] for column in columns]
    if all(cell in (None, "") for cell in cells):
        return None
    try:
        values = [float(cell) for cell in cells]
    except (TypeError, ValueError):
        values = [math.nan]
    least = math.log(LEAST_PROBABILITY)
    if prefix == _LOGIT:
        valid, allowed = all(map(math.isfinite, values)), "finite numbers"
    elif several:
        shares = [math.exp(value) if prefix == _LOGPROB else value for value in values]
        valid, allowed = all(0 <= x <= 1 + _TOLERANCE for x in shares), "probabilities from 0 to 1"
        bounded = [min(max(x, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY) for x in shares]
        logits = [math.log(x) - math.log1p(-x) for x in bounded]
    elif prefix == _LOGPROB:
        valid, allowed = all(value <= _TOLERANCE for value in values), "numbers up to 0"
        logits = [max(value, least) for value in values]
    else:
        valid = min(values) >= 0 and abs(sum(values) - 1) <= _TOLERANCE  # false for NaN
        allowed = "probabilities whose sum is 1 (within 0.001)"
        logits = [math.log(max(value, LEAST_PROBABILITY)) for value in values] if valid else []
    if not valid:
        seen = dict(zip(columns, cells, strict=True))
        raise DataError(f"{where}: {seen}\n  allowed: {allowed}, or all cells empty")
    return values if prefix == _LOGIT else logits


def _of_choices(numbers: Sequence[str], row: Row, where: str) -> Answer | None:
    """Return the logits of a list of one value a choice, or of the number of a choice with a
    confidence.
    """
    for prefix, name in _PREFIXES.items():
        listed = row.get(name)
        if listed in (None, ""):
            continue
        with suppress(ValueError):
            listed = json.loads(listed) if isinstance(listed, str) else listed
        if not isinstance(listed, list) or len(listed) != len(numbers):
            raise DataError(
                f"{where}: {name} = {shorten(repr(listed))}\n"
                f"  allowed: a list of {len(numbers)} numbers, one a choice"
            )
        return _numbers(prefix, numbers, dict(zip(numbers, listed, strict=True)), where)
    return _of_label(numbers, {}, {**row, "label": row.get("choice")}, where)


def _of_label(
    labels: Sequence[str], renamed: Mapping[str, str], row: Row, where: str
) -> Answer | None:
    """Return the logits of a label with a confidence; the other labels share the rest."""
    if row["label"] in (None, ""):
        return None
    label, confidence = _known(labels, renamed, row["label"], where), _confidence(row, where)
    others = (1 - confidence) / max(1, len(labels) - 1)
    shares = [confidence if label == other else others for other in labels]
    return [math.log(max(share, LEAST_PROBABILITY)) for share in shares]


def _of_labels(
    labels: Sequence[str], renamed: Mapping[str, str], separator: str | None, row: Row, where: str
) -> Answer | None:
    """Return the logits of a list of labels: the confidence is the probability of each label that
    it has, and of no other label.
    """
    given = row["labels"]
    if given in (None, ""):
        return None
    if isinstance(given, str) and separator and not given.startswith("["):
        given = [part for cell in given.split(separator) if (part := cell.strip())]
    listed = listed_labels(label_text(given), where)
    there = {_known(labels, renamed, name, where) for name in listed}
    share = min(max(_confidence(row, where), LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    logit = math.log(share) - math.log1p(-share)
    return [logit if label in there else -logit for label in labels]


def _known(labels: Sequence[str], renamed: Mapping[str, str], given: object, where: str) -> str:
    """Return the label of the task that a cell names."""
    name = label_text(given).strip()
    named = {plain_label(label): label for label in labels} | {label: label for label in labels}
    name = renamed.get(name, name)
    label = named.get(name, named.get(plain_label(name)))
    if label is None:
        raise DataError(
            f"{where}: label = {given!r}{did_you_mean(name, labels)}\n"
            f"  allowed: {', '.join(labels)}, or names that distillation.label_map maps to them"
        )
    return label


def _confidence(row: Row, where: str) -> float:
    try:
        confidence = float(row.get("confidence", 1.0))
    except (TypeError, ValueError):
        confidence = math.nan
    if not 0 <= confidence <= 1:
        raise DataError(f"{where}: confidence = {row['confidence']!r}\n  allowed: 0 to 1")
    return confidence


class WithAnswerFiles(Ensemble):
    """Ensemble of models and of tables of files, in the order of the teachers. The logits of a row
    that a file does not answer are NaN.

    ``files`` are the tables by number of the teacher, ``models`` the ensemble of all others.
    """

    def __init__(
        self, models: Ensemble | None, files: Mapping[int, TeacherTables], split: Split
    ) -> None:
        self.models, self.files = models, dict(files)
        self._keys = keys_of_texts(map(texts_of, split.examples))[split.features.example]

    @property
    def size(self) -> int:
        return len(self.files) + (self.models.size if self.models is not None else 0)

    @property
    def stats(self) -> Mapping[str, float]:
        return self.models.stats if self.models is not None else {}

    def submit(self, batch: Mapping[str, Any]) -> tuple[Keys, Any]:
        """Send the batch to the models."""
        keys = self._keys[torch.as_tensor(batch["rows"]).cpu().numpy()]
        return keys, None if self.models is None else self.models.submit(batch)

    def gather(self, handle: tuple[Keys, Any]) -> Tensor:
        keys, sent = handle
        of_models = iter(()) if self.models is None else iter(self.models.gather(sent).cpu())
        files = {number: _read(tables, keys) for number, tables in self.files.items()}
        return torch.stack([files[n] if n in files else next(of_models) for n in range(self.size)])

    def close(self) -> None:
        if self.models is not None:
            self.models.close()


def _read(tables: TeacherTables, keys: Keys) -> Tensor:
    """Return the stored logits of rows ``[B, C]``, NaN for rows without an answer."""
    held = tables.holds(keys)
    logits = np.full((len(keys), tables.kind.width), np.nan, np.float32)
    if held.any():
        logits[held] = np.stack(tables.read(keys[held]))
    return torch.from_numpy(logits)
