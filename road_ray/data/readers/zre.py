"""QA-ZRE, relation extraction as question answering.

Layout: tab-separated lines without a header, or a conversion to SQuAD JSON. Columns: relation,
question with ``XXX`` for the subject, subject, sentence, then any number of answers; a question
without answers is unanswerable. Source: Levy et al. 2017.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from road_ray.data.readers.squad import squad_table
from road_ray.data.readers.tables import Row, Table
from road_ray.data.readers.text_files import numbered_lines
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError, shorten

_SUBJECT = "XXX"


def zre_table(path: Path, columns: Columns) -> Table:
    """Return the questions as flat rows of SQuAD. Raises ``DataError`` with ``file:line`` for a row
    of fewer than four columns.
    """
    if ".json" in path.suffixes:
        return squad_table(path, columns)
    return Table(str(path), _rows(path), columns)


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    for number, line in numbered_lines(path):
        where, cells = f"{path}:{number}", line.split("\t")
        if line and len(cells) < 4:
            raise DataError(f"{where}: {len(cells)} columns, at least 4 wanted: {shorten(line)!r}")
        if line:
            _, question, subject, sentence, *answers = cells
            row = {"question": question, "subject": subject, "context": sentence}
            yield where, from_hub({**row, "answers": answers}, where)


def from_hub(row: Row, where: str) -> Row:
    """Return a row of the copy on the hub as a flat row of SQuAD; each answer is located at its
    first occurrence.
    """
    context = row["context"]
    answers = [{"text": a, "answer_start": context.find(a)} for a in row["answers"] if a]
    question = row["question"].replace(_SUBJECT, row["subject"])
    id = where.rpartition(":")[2]  # number of the row
    return {"id": id, "question": question, "context": context, "answers": answers}
