"""Relations as questions: QA-SRL, about the verbs of a sentence, and QA-ZRE, about its subject.

QA-SRL has two CSV files a split, ``NAME.gold.csv`` with the questions and ``NAME.full.csv`` with
the sentences. Columns: ``qasrl_id``, ``verb_idx``, ``question``, ``answer_range`` (token ranges
joined by ``~!~``), and ``qasrl_id``, ``tokens``. Source: Roit et al. 2020, the gold-standard
release.

QA-ZRE has tab-separated lines without a header, or a conversion to SQuAD JSON. Columns: relation,
question with ``XXX`` for the subject, subject, sentence, then any number of answers; a question
without answers is unanswerable. Source: Levy et al. 2017.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from road_ray.data.readers.squad import squad_rows
from road_ray.data.readers.tables import Row, table_rows
from road_ray.data.readers.text_files import numbered_lines
from road_ray.errors import DataError, shorten

_SEPARATOR = "~!~"  # between ranges of QA-SRL
_SUBJECT = "XXX"  # in questions of QA-ZRE


def qasrl_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions as flat rows of SQuAD; the context is the sentence, its tokens joined by
    spaces. Raises ``DataError`` if the file of the sentences is missing, or with ``file:line`` for
    a range outside its sentence.
    """
    beside = path.with_name(path.name.replace(".gold.", ".full."))
    if beside == path or not beside.is_file():
        raise DataError(
            f"{path}: no file {beside.name} with its sentences beside it\n"
            "  allowed: NAME.gold.csv and NAME.full.csv, or both as .gz"
        )
    sentences = {row["qasrl_id"]: row["tokens"].split(" ") for _, row in table_rows(beside)}
    for number, (where, row) in enumerate(table_rows(path)):
        tokens, answers = sentences.get(row["qasrl_id"]), []
        if tokens is None:
            raise DataError(f"{where}: qasrl_id {row['qasrl_id']!r} is not in {beside.name}")
        for part in filter(None, row["answer_range"].split(_SEPARATOR)):
            found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", part)
            begin, end = map(int, found.groups()) if found else (0, 0)
            if not begin < end <= len(tokens):
                raise DataError(
                    f"{where}: answer_range {shorten(part)!r}, the sentence has {len(tokens)} "
                    "tokens\n"
                    "  allowed: start:end in tokens, end exclusive"
                )
            start = len(" ".join([*tokens[:begin], ""]))
            answers.append({"text": " ".join(tokens[begin:end]), "answer_start": start})
        id = f"{row['qasrl_id']}:{row['verb_idx']}:{number}"
        context = " ".join(tokens)
        yield where, {"id": id, "question": row["question"], "context": context, "answers": answers}


def zre_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions as flat rows of SQuAD. Raises ``DataError`` with ``file:line`` for a row
    of fewer than four columns.
    """
    if ".json" in path.suffixes:
        yield from squad_rows(path)
        return
    for number, line in numbered_lines(path):
        where, cells = f"{path}:{number}", line.split("\t")
        if line and len(cells) < 4:
            raise DataError(f"{where}: {len(cells)} columns, at least 4 wanted: {shorten(line)!r}")
        if line:
            _, question, subject, sentence, *answers = cells
            row = {"question": question, "subject": subject, "context": sentence}
            yield where, zre_from_hub({**row, "answers": answers}, where)


def zre_from_hub(row: Row, where: str) -> Row:
    """Return a row of the copy on the hub as a flat row of SQuAD; each answer is located at its
    first occurrence.
    """
    context = row["context"]
    answers = [{"text": a, "answer_start": context.find(a)} for a in row["answers"] if a]
    question = row["question"].replace(_SUBJECT, row["subject"])
    id = where.rpartition(":")[2]  # number of the row
    return {"id": id, "question": question, "context": context, "answers": answers}
