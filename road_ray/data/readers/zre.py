"""Reader of QA-ZRE, relation extraction as question answering.

Layout: tab-separated lines without a header, or a conversion to SQuAD JSON. Columns: relation,
question with ``XXX`` for the subject, subject, sentence, then any number of answers.
Source: Levy et al. 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.data.readers.parts.text_files import numbered_lines, require_unique
from road_ray.data.readers.squad import read_squad, span_example
from road_ray.errors import DataError, shorten

_SUBJECT = "XXX"


def read_zre(path: Path) -> list[SpanExample]:
    """Return the questions; one without answers is unanswerable.

    Raises ``DataError`` with ``file:line`` for a row of fewer than four columns, or an answer that
    is not in the sentence.
    """
    if ".json" in path.suffixes:
        return read_squad(path)
    examples = [
        zre_example(line.split("\t"), str(number), f"{path}:{number}")
        for number, line in numbered_lines(path)
        if line
    ]
    require_unique(path, examples)
    return examples


def zre_example(cells: Sequence[str], name: str, where: str) -> SpanExample:
    """Return the question of one row; each answer is located at its first occurrence."""
    if len(cells) < 4:
        raise DataError(
            f"{where}: {len(cells)} columns, at least 4 wanted: {shorten(' '.join(cells))!r}"
        )
    _, question, subject, sentence, *answers = cells
    placed = []
    for answer in filter(None, answers):
        if answer not in sentence:
            raise DataError(f"{where}: the answer {answer!r} is not in the sentence")
        placed.append((answer, sentence.index(answer)))
    return span_example(name, question.replace(_SUBJECT, subject), sentence, placed, where)
