"""Answers from elsewhere: a file or hub data set of predictions, of labels by people or of an LLM's
answers is a teacher like a model.

A file is read and checked before the training, whose workers get its answers in fp32: of a sentence
the logits of words, of a question answers by their characters, whatever the student's tokens are. A
row that it does not answer is NaN in the logits, and the weighting rule sees the other teachers
alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from road_ray.data.examples import Example, Features, Ints, Longs
from road_ray.data.load_split import Split, read_examples, root_of, row_features
from road_ray.data.readers.tables import Row, asking_hub, load_rows, placed_rows, table_rows
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Dataset,
    Hub,
    Kind,
    MultiLabel,
    Span,
    Tag,
    Task,
)
from road_ray.distillation.cross_tokenizer import PAD_LOGIT, transfer_spans
from road_ray.distillation.stored_ensemble import Values
from road_ray.errors import DataError
from road_ray.models.load_weights import LabelMap, names_for
from road_ray.recipes.train.answer_cells import Answer, Texts, flat, reader_of
from road_ray.recipes.train.teaching_config import ON_HUB
from road_ray.system.files import sha256_of

if TYPE_CHECKING:
    from road_ray.recipes.train.teachers import Teachers

FILE_SHA256 = "file_sha256"  # of a teacher that is a file, in a manifest

_log = logging.getLogger(__name__)


def file_entry(path: str, task: Task, label_map: LabelMap | None) -> dict[str, Any]:
    """Return the entry of a file, or data set of the hub, in the manifest of teachers."""
    digest = hashlib.sha256()
    for _, row in _rows(path) if ON_HUB.fullmatch(path) else ():
        digest.update(json.dumps(row, default=str).encode())
    sha256 = digest.hexdigest() if ON_HUB.fullmatch(path) else sha256_of(Path(path))
    entry: dict[str, Any] = {"directory": path, FILE_SHA256: sha256}
    if isinstance(task.kind, Classify | MultiLabel | Tag):
        entry |= {"labels": task.kind.labels, "label_map": names_for(label_map, Path(path))}
    return entry


def _rows(path: str) -> Iterable[tuple[str, Row]]:
    """Return the rows of a file, or of a split of a data set of the hub, each with its place."""
    on_hub = ON_HUB.fullmatch(path)
    if on_hub is None:
        return table_rows(Path(path))
    name, revision, split = on_hub.groups()
    with asking_hub(f"distillation.teachers: {path}"):  # datasets/OWNER/NAME[@REVISION][/SPLIT]
        rows = load_rows(Hub(name, revision=revision), split or "train")
    return placed_rows(rows, f"hf://{path}")


def read_files(teachers: Teachers, split: Split) -> list[pa.LargeListArray]:
    """Return the answers of each teacher that is a file to the examples of ``split``, null where
    it has none. Raises ``DataError`` for rows that are not there or are answered twice, values that
    are no answers and, without models, rows that have neither a label nor an answer.
    """
    if not teachers.files:
        return []
    source = teachers.config.data
    # Numbers of rows are those of the file: also of rows that are held out or have no label.
    file = replace(split.dataset, dev_fraction=None)
    if not isinstance(split.task.kind, Tag):  # whose rows all have tags
        file = replace(file, columns=replace(file.columns, label=None))
    rows = read_examples(file, "train", root_of(file.name, source))
    given = list[pa.LargeListArray]()
    for path in (entry["directory"] for entry in teachers.files.values()):
        found = _read_answers(path, split, rows, teachers.config.distillation.label_map)
        answers = list[Answer | None]()
        for example in split.examples:
            # A pair that is learnt in both orders has one answer unless the file has two.
            turned = found.get(example.texts[::-1]) if example.id.endswith(" turned") else None
            answers.append(found.get(example.texts, turned))
        given.append(pa.array(answers, pa.large_list(pa.float32())))
        if not (count := given[-1].drop_null()):
            raise DataError(f"{path}: answers none of the {len(answers)} training rows")
        _log.info("%s: answers to %d of %d rows", path, len(count), len(answers))
    answered = sum(x.is_valid().to_numpy(zero_copy_only=False) for x in given)
    unknown = [split.examples[number] for number in np.flatnonzero(answered == 0).tolist()]
    if not teachers.models and (lost := [e for e in unknown if e == e.unlabelled()]):
        raise DataError(
            f"{lost[0].where}: {len(lost)} rows of {split.dataset.name} have no label, and no "
            "teacher answers them\n  fix: leave them out, or add a model to distillation.teachers"
        )
    return given


def _read_answers(
    path: str, split: Split, training_rows: Sequence[Example], label_map: LabelMap | None
) -> dict[Texts, Answer]:
    """Return the answers of a file to ``training_rows``, all rows of the training files, and to
    other rows of ``split``.

    A row of the file names a training row by ``row``, by the text columns of the data set or their
    usual names, or by ``id``, by default its number; without these its rows are all training rows
    in their order.
    """
    rows, dataset = [row.texts for row in training_rows], split.dataset
    known = {*rows, *(example.texts for example in split.examples)}
    ids = {row.id: number for number, row in enumerate(training_rows)}
    if len(ids) < len(rows):
        ids = {}
    found, taken = dict[Texts, Answer](), set[int]()
    names, in_order, count = None, False, 0
    for count, (where, cells) in enumerate(_rows(path), 1):
        row = flat(cells)
        if dataset.columns.id in row:
            row.setdefault("id", row[dataset.columns.id])
        if row.keys() != names:
            names, columns = row.keys(), _text_columns(dataset, split.task.kind, row)
            read = reader_of(where, Path(path), names, split, label_map)
            in_order = not columns and "row" not in row and not ("id" in row and ids)
        number, seen = -1, f"row {row.get('row', row.get('id', count - 1))}"
        if columns:
            texts = tuple(map(str, row["words"] if columns == ["words"] else map(row.get, columns)))
            seen = " | ".join(texts)[:80]
        else:
            number = _row_number(row, count - 1, ids)
            texts = rows[number] if 0 <= number < len(rows) else ("",)
        answer = read(row, where, texts) if texts in known else None
        twice = found.get(texts, answer) != answer if columns else number in taken
        taken.add(number)
        if texts not in known or twice:
            raise DataError(
                f"{where}: {seen!r} is "
                f"{'answered twice, and not alike' if twice else f'no row of {dataset.name}'}\n"
                f"  allowed: a column row, from 0 to {len(rows) - 1}; the text columns of the data "
                "set; or all rows of its training file in their order"
            )
        if answer is not None:
            found.setdefault(texts, answer)
    if in_order and count != len(rows):
        raise DataError(
            f"{path}: {count} rows without their numbers or texts; {dataset.name} has {len(rows)}\n"
            "  allowed: as many\n  fix: add a column row, or the texts (road predict --keep COLUMN)"
        )
    return found


def _text_columns(dataset: Dataset, kind: Kind, row: Row) -> list[str]:
    """Return the columns of a file that have the texts of a row; none where it has numbers."""
    if "row" in row or isinstance(kind, Choose):
        return []
    if isinstance(kind, Tag):  # a text is no list of words
        return ["words"] if isinstance(row.get("words"), list) else []
    own = [str(name).split("|") for name in dataset.columns.text]
    usual = [["text"], ["text_pair"]][: len(own)]
    if isinstance(kind, Span):
        own = usual = [["question"], ["context"]]
    for names in (own, usual):
        found = [next((name for name in options if name in row), None) for options in names]
        if None not in found:
            return [name for name in found if name is not None]
    return []


def _row_number(row: Row, place: int, ids: Mapping[str, int]) -> int:
    """Return the number of a training row: ``row``, that with the ``id``, or else the place in the
    file. -1 for what is no number, and for another id.
    """
    if ids and "row" not in row and row.get("id") not in (None, ""):
        return ids.get(str(row["id"]), -1)
    try:
        return int(str(row.get("row", place)))
    except ValueError:
        return -1


def readers_of(teachers: Teachers, split: Split) -> dict[int, Callable[[Longs, int], Tensor]]:
    """Return functions that read the answers of the files, by their number among the teachers of a
    row: logits of rows of ``split``, in a batch of some width.
    """
    features = row_features(split, teachers.tokenizer, teachers.config.data)
    each = zip(teachers.files, teachers.answers, strict=True)
    return {number: partial(_logits, found, features, split.task.kind) for number, found in each}


def _logits(
    answers: pa.LargeListArray, features: Features, kind: Kind, rows: Longs, width: int
) -> Tensor:
    """Return the logits of rows, NaN for rows without an answer: ``[B, C]``, of spans ``[B, 2,
    width]`` and of tags ``[B, width, C]``.
    """
    shape: tuple[int, ...] = (kind.width,)
    if isinstance(kind, Span | Tag):
        shape = (kind.width, width) if isinstance(kind, Span) else (width, kind.width)
    logits = np.full((len(rows), *shape), np.nan, np.float32)
    for place, row in enumerate(rows):
        cell = answers[int(features.example[row])]
        if not cell.is_valid:
            continue
        answer = cell.values.to_numpy()
        tokens = slice(*features.bounds[row : row + 2].tolist())
        if isinstance(kind, Span):
            assert features.offsets is not None
            logits[place] = _of_window(answer, features.offsets[tokens], width)
        elif isinstance(kind, Tag):
            assert features.words is not None
            words = features.words[tokens]
            begins = np.flatnonzero(words >= 0)
            logits[place] = PAD_LOGIT
            logits[place, begins] = answer.reshape(-1, kind.width)[words[begins]]
        else:
            logits[place] = answer
    return torch.from_numpy(logits)


def _of_window(answer: Values, offsets: Ints, width: int) -> Values:
    """Return the logits of an answer (``answer_cells.py``) for a window's tokens with these
    ``offsets`` ``[T, 2]``: ``[2, width]``. A span that the window has not all of is none there, as
    in its labels.
    """
    tokens = answer.reshape(-1, 3)
    spans = tokens[:, :2].astype(np.int32)
    shown = np.full((2, width), -1, np.int32)
    shown[:, : len(offsets)] = offsets.T
    first, last = offsets[offsets[:, 0] >= 0, 0].min(initial=2**31 - 1), offsets[:, 1].max()
    beyond = (spans[:, 0] >= 0) & ((spans[:, 0] < first) | (spans[:, 1] > last))
    spans[beyond] = (last, last + 1)  # behind the window
    return transfer_spans(np.stack([tokens[:, 2]] * 2), spans, shown, len(offsets))[0]
