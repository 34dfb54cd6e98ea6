"""Rows without labels, which are added to the training rows of a data set in a distillation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import (
    ChoiceExample,
    Example,
    SpanExample,
    TextExample,
)
from road_ray.data.readers.squad import questions, squad_table
from road_ray.data.readers.tables import check_text, missing_columns, suffix_of, table_rows
from road_ray.data.readers.text_files import numbered_lines
from road_ray.data.task_and_dataset import Choose, Columns, Dataset, Span, Tag, Task
from road_ray.errors import ConfigError, DataError

_KEY = "data.unlabelled"
REST = "rest"
"""Entry of ``data.unlabelled`` that names the training rows beyond ``data.max_rows``."""
_TEXT, _TABLES = (".txt",), (".jsonl", ".csv", ".tsv", ".parquet")


def unlabelled_file(name: str, root: Path | None) -> Path | None:
    """Return the file that an entry of ``data.unlabelled`` names, below ``root`` or as a path; None
    if there is none, so that it names a data set.
    """
    place = Path(name).expanduser()
    below = [root / place] if root is not None else []
    return next((path for path in (*below, place) if path.is_file()), None)


def read_unlabelled(path: Path, dataset: Dataset, task: Task) -> list[Example]:
    """Return the rows of a text, table or SQuAD file as examples of ``task`` without labels.

    A table has the text columns of the data set, or ``text`` and ``text_pair``, ``question`` and
    ``context``. A text file has one text a line. Raises ``DataError`` for a row without them and an
    empty file, ``ConfigError`` for a suffix that is not read and a task of tags.
    """
    if isinstance(task.kind, Tag):
        raise ConfigError(
            f"{_KEY} with data.dataset = {dataset.name}: rows of tags cannot be unlabelled\n"
            "  allowed: tasks of classes, numbers, answers and choices"
        )
    suffix = suffix_of(path)
    if suffix == ".json" and isinstance(task.kind, Span):
        examples: list[Example] = [
            question.unlabelled() for question in questions(squad_table(path, Columns(())))
        ]
    elif suffix in _TEXT and not isinstance(task.kind, Span | Choose):
        lines = ((n, line.strip()) for n, line in numbered_lines(path))
        rows = ((f"{path}:{n}", {"text": line}) for n, line in lines if line)
        examples = [_example(row, where, dataset, task) for where, row in rows]
    elif suffix in _TABLES:
        examples = [_example(row, where, dataset, task) for where, row in table_rows(path)]
    else:
        raise ConfigError(
            f"{_KEY}: {path}: {suffix or 'no suffix'} is not read for task {task.name!r}\n"
            f"  allowed: {', '.join(_TABLES)}, .txt for tasks of one text, .json in SQuAD's layout "
            "for answers"
        )
    if not examples:
        raise DataError(f"{path}: 0 rows\n  fix: leave it out of {_KEY}")
    return examples


def with_own_ids(examples: Iterable[Example], source: str) -> Iterator[Example]:
    """Yield the examples with ids that no labelled row has."""
    for number, example in enumerate(examples):
        yield replace(example, id=f"unlabelled/{source}/{number}")


def _example(row: Mapping[str, object], where: str, dataset: Dataset, task: Task) -> Example:
    if isinstance(task.kind, Span):
        question, context = _texts(row, ("question", "context"), where)
        return SpanExample("", question, context, (), where, labelled=False)
    dataset_columns = tuple(str(name).split("|")[0] for name in dataset.columns.text)
    usual = ("text", "text_pair")[: len(dataset_columns)]
    names = (
        dataset_columns
        if all(name in row for name in dataset_columns) or isinstance(task.kind, Choose)
        else usual
    )
    texts = _texts(row, names, where)
    if isinstance(task.kind, Choose):
        return ChoiceExample("", texts[0], texts[1:], None, where)
    return TextExample("", texts, None, where)


def _texts(row: Mapping[str, object], names: Iterable[str], where: str) -> tuple[str, ...]:
    if missing := [name for name in names if name not in row]:
        message = missing_columns(where, missing, list(row)).splitlines()[0]
        raise DataError(f"{message}\n  fix: name the columns like that, or leave the file out")
    return tuple(check_text(row[name], where, name) for name in names)
