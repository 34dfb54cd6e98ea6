"""Reader of multiple-choice questions: CommonsenseQA, SWAG, HellaSwag and custom tables.

Layout: a JSONL, CSV, TSV or parquet table. One function a layout turns a row, of a file or of the
hub, into question, choices and answer; its docstring names columns and source. To add a layout, add
a function to ``CHOICES``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from road_ray.data.features.examples_and_features import ChoiceExample
from road_ray.data.readers.parts.labels import below_zero
from road_ray.data.readers.parts.table_rows import table_rows
from road_ray.data.readers.parts.text_files import (
    MISFITS,
    check_text,
    missing_columns,
    require_unique,
)
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError

_log = logging.getLogger(__name__)
Row = Mapping[str, Any]
_LABELS = {"commonsenseqa": "answerKey"}
_LONGEST_NUMBER = 9  # digits of a choice's number


def commonsenseqa(row: Row, columns: Columns) -> tuple[str, list[Any], Any]:
    """Columns ``question`` with ``stem`` and ``choices`` (on the hub ``question`` and ``choices``),
    ``answerKey``. Source: Talmor et al. 2019.
    """
    question = row["question"]
    if isinstance(question, str):
        labels, texts = row["choices"]["label"], row["choices"]["text"]
    else:
        labels = [choice["label"] for choice in question["choices"]]
        texts = [choice["text"] for choice in question["choices"]]
        question = question["stem"]
    key = row.get("answerKey") or None
    return question, texts, labels.index(key) if key in labels else key


def swag(row: Row, columns: Columns) -> tuple[str, list[Any], Any]:
    """Columns ``sent1``, ``sent2`` (the next beginning), ``ending0`` to ``ending3``, ``label``.

    Source: Zellers et al. 2018.
    """
    endings = [row[f"ending{number}"] for number in range(4)]
    return (
        row["sent1"],
        [f"{row['sent2']} {ending}".strip() for ending in endings],
        row.get("label"),
    )


def hellaswag(row: Row, columns: Columns) -> tuple[str, list[Any], Any]:
    """Columns ``ctx_a``, ``ctx_b`` (may be empty), ``endings``, ``label``. Source: Zellers et al.
    2019.
    """
    endings = [f"{row['ctx_b']} {ending}".strip() for ending in row["endings"]]
    return row["ctx_a"], endings, row.get("label")


def by_columns(row: Row, columns: Columns) -> tuple[str, list[Any], Any]:
    """Columns of the entry: question, then the choices; the label is the number of the right choice
    from 0, or its letter.
    """
    question, *choices = (row[str(name)] for name in columns.text)
    return question, choices, row.get(str(columns.label))


CHOICES: dict[str, Callable[[Row, Columns], tuple[str, list[Any], Any]]] = {
    "commonsenseqa": commonsenseqa,
    "swag": swag,
    "hellaswag": hellaswag,
    "choices": by_columns,
}


def read_choices(
    path: Path, layout: str, columns: Columns, *, labelled: bool = False
) -> list[ChoiceExample]:
    """Return the questions of a table.

    Raises ``DataError`` with ``file:line`` for a missing column or choice, an answer that is not
    one of the choices, and repeated ids.
    """
    examples = choice_examples(table_rows(path), str(path), layout, columns, labelled=labelled)
    require_unique(path, examples)
    return examples


def choice_examples(
    rows: Iterable[tuple[str, Row]], name: str, layout: str, columns: Columns, *, labelled: bool
) -> list[ChoiceExample]:
    """Return the questions of rows with their places; ``labelled`` drops those without an answer,
    with a warning.
    """
    examples = [
        _example(layout, row, columns, str(number), where, labelled=labelled)
        for number, (where, row) in enumerate(rows)
    ]
    usable = [example for example in examples if not labelled or example.answer is not None]
    if examples and not usable:
        raise DataError(
            f"{name}: 0 of {len(examples)} questions have an answer in column "
            f"{columns.label or _LABELS.get(layout, 'label')!r}\n"
            "  fix: name the column of the answer as label, or fill it"
        )
    if len(usable) < len(examples):
        _log.warning("%s: dropped %d rows without a label", name, len(examples) - len(usable))
    return usable


def _example(
    layout: str, row: Row, columns: Columns, number: str, where: str, *, labelled: bool
) -> ChoiceExample:
    """Return the question of one row; ``number`` is its id if the row has none."""
    try:
        question, choices, answer = CHOICES[layout](row, columns)
        choices = list(choices)
    except KeyError as error:
        raise DataError(missing_columns(where, [str(error.args[0])], list(row))) from error
    except MISFITS as error:
        raise DataError(f"{where}: not in the layout of {layout}: {error}") from error
    for place, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice.strip():
            raise DataError(
                f"{where}: choice {place + 1} of {len(choices)} is missing; seen {choice!r}\n"
                "  fix: correct the row, or remove the question"
            )
    label = _number(answer, len(choices))
    hidden = answer in (None, "") or (not labelled and below_zero(str(answer)))
    if label is None and not hidden:
        raise DataError(
            f"{where}: the answer is {answer!r}, there are {len(choices)} choices\n"
            f"  allowed: 0 to {len(choices) - 1}, or the letter or label of a choice"
        )
    texts = tuple(check_text(choice, where, "choice") for choice in choices)
    name = row.get(str(columns.id)) if columns.id is not None else None
    name = number if name is None else str(name)
    return ChoiceExample(name, check_text(question, where, "question"), texts, label, where)


def _number(answer: Any, choices: int) -> int | None:
    text = str(answer)
    if len(text) == 1 and "A" <= text.upper() <= "Z":
        text = str(ord(text.upper()) - ord("A"))
    short = text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return int(text) if short and int(text) < choices else None
