"""QA-ZRE: relations as questions, from the published tab-separated splits or converted to SQuAD.

Source: Levy et al. 2017; ``relation, question with XXX, subject, sentence, answers...``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from road_ray.data.features.types import SpanExample
from road_ray.data.readers.files import numbered_lines, shorten
from road_ray.data.readers.squad import read_squad, span_example
from road_ray.errors import DataError

_SUBJECT = "XXX"


def read_zre(path: Path) -> list[SpanExample]:
    """Every question; without answers it is unanswerable. Raises ``DataError`` with ``file:line``
    for a row of fewer than four columns and an answer that is not in the sentence.
    """
    if ".json" in path.suffixes:
        return read_squad(path)
    examples = [
        zre_example(line.split("\t"), str(number), f"{path}:{number}")
        for number, line in numbered_lines(path)
        if line
    ]
    if not examples:
        raise DataError(f"{path}: 0 questions")
    return examples


def zre_example(cells: Sequence[str], name: str, where: str) -> SpanExample:
    """One question from its row; ``XXX`` is the subject, an answer stands at its first place."""
    if len(cells) < 4:
        raise DataError(
            f"{where}: {len(cells)} columns, at least 4 wanted: {shorten(' '.join(cells))!r}"
        )
    _, question, subject, sentence, *answers = cells
    found = []
    for answer in filter(None, answers):
        if answer not in sentence:
            raise DataError(f"{where}: the answer {answer!r} is not in the sentence")
        found.append((answer, sentence.index(answer)))
    return span_example(name, question.replace(_SUBJECT, subject), sentence, found, where)
