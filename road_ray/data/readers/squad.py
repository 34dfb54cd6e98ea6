"""Questions about a context, as in SQuAD 1.1 and 2.0, NewsQA and DuoRC.

One JSON file, ``FORM`` below, or a table of the flat rows of Hugging Face's copy. Each answer has
``text`` and ``answer_start``, in characters of the context. ``question_layouts.py`` turns the rows
of other layouts into flat rows. Source: Rajpurkar et al. 2016 and 2018.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from road_ray.data.examples import Answer, SpanExample
from road_ray.data.readers.tables import (
    Row,
    Table,
    check_text,
    first_faults,
    json_content,
    suffix_of,
    table_rows,
)
from road_ray.errors import DataError, shorten

# An offset that was counted before a cleaning step is off by a few characters. Farther away the
# same words are likely another mention.
_NEARBY_CHARACTERS = 64
# Scripts without spaces between words, and Korean, whose particles follow a word without one.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_ARRAY = re.compile(r"array\((\[.*?\])(?:, dtype=\w+)?\)", re.DOTALL)  # as pandas writes a cell

FORM = (
    '{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers"}]}]}]}, or rows: '
    '{"id", "context", "question", "answers": {"text": [...], "answer_start": [...]}}'
)

_log = logging.getLogger(__name__)


def squad_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the flat rows of a file in SQuAD's JSON, or of a table of them."""
    articles = articles_in(path)
    if not articles:
        yield from table_rows(path)
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                where = f"{path}: question {question['id']!r}"
                yield where, {**question, "context": paragraph["context"]}


def articles_in(path: Path) -> list[Any]:
    """Return the articles of a file in SQuAD's JSON; empty for a table."""
    content = json_content(path) if suffix_of(path) == ".json" and path.is_file() else None
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list) or not articles:
        return []
    return articles if isinstance(articles[0], dict) and "paragraphs" in articles[0] else []


def questions(table: Table) -> Iterator[SpanExample]:
    """Yield the questions of flat rows; a row without ``id`` gets its number from 0.

    A question without ``answers``, or with an empty one, is unanswerable. Answers of a question
    with ``is_impossible: true`` are dropped with a warning. An answer that is not at its offset is
    moved, with a warning, to its nearest occurrence within 64 characters that is no part of a
    longer word. Other answers, and questions that have no others, are dropped with a warning.
    Raises ``DataError`` that lists them if these are most of the questions.
    """
    errors: list[str] = []
    moved: list[str] = []
    contradictory: list[str] = []
    usable = unusable = 0
    for number, (where, row) in enumerate(table.rows):
        answers = [a for a in flat_answers(row.get("answers"), where) if not _is_none(a)]
        if row.get("is_impossible") and answers:
            contradictory.append(where)
            answers = []
        context = check_text(row["context"], where, "context")
        found: list[Answer] = []
        for answer in answers:
            text, start = answer.get("text"), answer.get("answer_start")
            place = _place(context, text, start)
            if place is None:
                errors.append(f"{where} answer_start={start!r}: {text!r} is not there")
                continue
            if place != start:
                moved.append(f"{where} answer_start={start} -> {place}: {text!r}")
            found.append(Answer(str(text), place))
        without = row.get("is_impossible") is False and "answers" in row and not answers
        if without:
            errors.append(f"{where} says is_impossible: false but has no answers")
        if without or (answers and not found):
            unusable += 1
            continue
        usable += 1
        yield SpanExample(
            id=str(row.get("id", number)),
            question=check_text(row["question"], where, "question"),
            context=context,
            answers=tuple(found),
            where=where,
            labels=row.get("further", ()),
            history=row.get("history", ()),
            references=row.get("references", ()),
        )
    if unusable > usable:
        raise DataError(
            f"{table.name}: {len(errors)} answers cannot be used\n  {first_faults(errors)}\n"
            "  fix: count answer_start in characters from 0, or remove these questions"
        )
    for faults, what in (
        (errors, f"dropped %d answers that cannot be used, and {unusable} questions"),
        (moved, "moved %d answers to where they stand"),
        (contradictory, "dropped the answers of %d questions with is_impossible: true"),
    ):
        if faults:
            _log.warning(f"%s: {what}: %s", table.name, len(faults), first_faults(faults))


def flat_answers(cell: Any, where: str) -> list[dict[str, Any]]:
    """Return the answers of a flat row: a mapping of two lists, a list of mappings, or the text of
    one, as JSON or as Python and pandas write it.
    """
    if isinstance(cell, str) and cell.strip():
        try:
            cell = json.loads(cell)
        except ValueError:
            try:
                cell = ast.literal_eval(_ARRAY.sub(r"\1", cell.strip()))
            except (ValueError, SyntaxError) as error:
                raise DataError(
                    f"{where}: column 'answers' is {shorten(repr(cell))}\n"
                    f"  allowed: {FORM}, whose answers may be the text of such an object"
                ) from error
    if isinstance(cell, dict):
        texts, starts = cell["text"], cell["answer_start"] if cell["text"] else []
        if isinstance(texts, str):
            texts, starts = [texts], [starts]
        return [
            {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
        ]
    return list(cell or []) if not isinstance(cell, str) else []


def _is_none(answer: Row) -> bool:
    """Return True for the empty answer by which some copies say that there is none."""
    start = answer.get("answer_start")
    return answer.get("text") == "" and (start is None or (isinstance(start, int) and start <= 0))


def _place(context: str, text: object, start: object) -> int | None:
    """Return the character at which an answer stands: ``start``, or else its nearest occurrence
    within 64 characters that is no part of a longer word, of two the earlier; None if there is
    none.
    """
    if not isinstance(text, str) or not text.strip() or not isinstance(start, int):
        return None
    if start >= 0 and context.startswith(text, start):
        return start
    first, last = max(start - _NEARBY_CHARACTERS, 0), max(start, 0) + _NEARBY_CHARACTERS
    near = [place for place in range(first, last + 1) if _is_whole(context, text, place)]
    return min(near, key=lambda place: (abs(place - start), place), default=None)


def _is_whole(context: str, text: str, start: int) -> bool:
    """Return True if the text is there and no part of a longer word."""

    def is_mark(character: str) -> bool:
        return unicodedata.category(character)[0] == "M"

    def is_inside(place: int) -> bool:  # a word
        if not 0 < place < len(context):
            return False
        left, right = context[place - 1], context[place]
        spaced = not (_WITHOUT_SPACES.match(left) or _WITHOUT_SPACES.match(right))
        letters = right.isalnum() and (left.isalnum() or is_mark(left))
        return is_mark(right) or (spaced and letters)

    whole = not is_inside(start) and not is_inside(start + len(text))
    return context.startswith(text, start) and whole
