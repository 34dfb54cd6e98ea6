"""Multiple-choice questions: CommonsenseQA, SWAG, HellaSwag and custom tables.

One function a layout turns a row, of a file or of the hub, into question, choices and answer; its
docstring names columns and source. To add a layout, add a function to ``CHOICES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from road_ray.data.examples import ChoiceExample
from road_ray.data.readers.tables import Row, Table, check_text
from road_ray.data.task_and_dataset import Columns, below_zero, plain_label
from road_ray.errors import DataError


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
    endings = [f"{row['sent2']} {row[f'ending{number}']}".strip() for number in range(4)]
    return row["sent1"], endings, row.get("label")


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


def choice_questions(layout: str, table: Table) -> Iterator[ChoiceExample]:
    """Yield the questions of a table. Raises ``DataError`` for a missing choice, and an answer that
    is not one of the choices; unless rows need labels, a number below 0 hides the answer.
    """
    columns = table.columns
    for number, (where, row) in enumerate(table.rows):
        question, choices, answer = CHOICES[layout](row, columns)
        for place, choice in enumerate(choices):
            if not isinstance(choice, str) or not choice.strip():
                raise DataError(
                    f"{where}: choice {place + 1} of {len(choices)} is missing; seen {choice!r}\n"
                    "  fix: correct the row, or remove the question"
                )
        number_or_letter = plain_label(str(answer))
        if len(number_or_letter) == 1 and "A" <= number_or_letter.upper() <= "Z":
            number_or_letter = str(ord(number_or_letter.upper()) - ord("A"))
        known = number_or_letter in map(str, range(len(choices)))
        label = int(number_or_letter) if known else None
        hidden = answer in (None, "") or (not table.labelled and below_zero(str(answer)))
        if label is None and not hidden:
            raise DataError(
                f"{where}: the answer is {answer!r}, there are {len(choices)} choices\n"
                f"  allowed: 0 to {len(choices) - 1}, or the letter or label of a choice"
            )
        texts = tuple(check_text(choice, where, "choice") for choice in choices)
        id = None if columns.id is None else row.get(str(columns.id))
        name = str(number if id is None else id)
        yield ChoiceExample(name, check_text(question, where, "question"), texts, label, where)
