"""Questions of the MRQA 2019 shared task: TriviaQA, Natural Questions and others.

Layout: JSONL, a header line, then one context with its questions a line: ``context`` and ``qas``,
each with ``qid``, ``question`` and ``detected_answers``, whose ``char_spans`` are first and last
character. Every detected span is an answer, and training uses the first. Source: Fisch et al. 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from road_ray.data.readers.tables import Row, check_text, table_rows
from road_ray.errors import DataError

FORM = (
    '{"context", "qas": [{"qid", "question", "detected_answers": '
    '[{"char_spans": [[first, last]]}]}]} on each line'
)


def mrqa_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions as flat rows of SQuAD. Raises ``DataError`` for a span outside the
    context.
    """
    for where, row in table_rows(path):
        if "header" in row:
            continue
        if "qas" not in row:
            raise DataError(f"{where}: no 'qas' in the row\n  allowed: {FORM}")
        for question in row["qas"]:
            place = f"{where}: question {question['qid']!r}"
            spans = [s for found in question["detected_answers"] for s in found["char_spans"]]
            whole = {**question, "context": row["context"]}
            yield place, _flat(whole, map(tuple, spans), place)


def from_hub(row: Row, where: str) -> Row:
    """Return a row of the copy on the hub as a flat row of SQuAD."""
    spans = row["detected_answers"]["char_spans"]
    found = [place for span in spans for place in zip(span["start"], span["end"], strict=True)]
    return _flat(row, found, where)


def _flat(row: Row, spans: Iterable[tuple[int, ...]], where: str) -> dict[str, Any]:
    context = check_text(row["context"], where, "context")
    answers = []
    for first, last in dict.fromkeys(spans):
        if not 0 <= first <= last < len(context):
            raise DataError(
                f"{where} has an answer at characters {first} to {last}, the context has "
                f"{len(context)}"
            )
        answers.append({"text": context[first : last + 1], "answer_start": first})
    question = row["question"]
    return {"id": row["qid"], "question": question, "context": context, "answers": answers}
