"""Reader of SQuAD 1.1 and 2.0, and of data sets in their layout such as NewsQA and DuoRC.

Layout: one JSON file, ``_LAYOUT`` below, or a table of the flat rows of Hugging Face's copy,
``_FLAT``. Each answer has ``text`` and ``answer_start``, in characters of the context. Source:
Rajpurkar et al. 2016 and 2018.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from road_ray.data.features.examples_and_features import Answer, SpanExample
from road_ray.data.readers.parts.table_rows import json_shape, suffix_of, table_rows
from road_ray.data.readers.parts.text_files import (
    MISFITS,
    check_text,
    first_faults,
    read_document,
    require_unique,
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

_LAYOUT = '{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers"}]}]}]}'
_FLAT = '{"id", "context", "question", "answers": {"text": [...], "answer_start": [...]}}'

_log = logging.getLogger(__name__)


@dataclass
class _Findings:
    """Faults of one file."""

    errors: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    contradictory: list[str] = field(default_factory=list)
    num_dropped: int = 0  # questions of which no answer can be used


def read_squad(path: Path) -> list[SpanExample]:
    """Return the questions of a file in its order.

    A question without ``answers``, or with an empty one, is unanswerable; ``plausible_answers`` are
    ignored. Answers of a question with ``is_impossible: true`` are dropped with a warning. An
    answer that is not at its offset is moved, with a warning: to where an offset in UTF-16 units or
    UTF-8 bytes points, else to its nearest occurrence within 64 characters that is no part of a
    longer word. Other answers, and questions that have no others, are dropped with a warning.
    Raises ``DataError`` that lists them if these are most of the questions, and for repeated ids.
    """
    return _examples(_questions(path), str(path))


def flat_examples(rows: Iterable[tuple[str, Mapping[str, Any]]], name: str) -> list[SpanExample]:
    """Return the questions of flat rows with their places, as ``read_squad`` does."""
    return _examples(_flat_questions(rows), name)


def _examples(
    questions: Iterable[tuple[str, Mapping[str, Any], str]], path: str
) -> list[SpanExample]:
    findings = _Findings()
    try:
        made = [_example(*question, findings) for question in questions]
    except MISFITS as error:
        raise DataError(
            f"{path}: not in SQuAD layout: {type(error).__name__} {error}\n"
            f"  allowed: {_LAYOUT}\n  or rows: {_FLAT}"
        ) from error
    examples = [example for example in made if example is not None]
    _report(path, examples, findings)
    return examples


def span_example(
    id: str, question: str, context: str, answers: list[tuple[str, int]], where: str
) -> SpanExample:
    """Return one question. Raises ``DataError`` if an answer is not at its offset."""
    findings = _Findings()
    question, context = (
        check_text(question, where, "question"),
        check_text(context, where, "context"),
    )
    placed = tuple(_placed(context, text, start, where, findings) for text, start in answers)
    if findings.errors:
        raise DataError(findings.errors[0])
    return SpanExample(id, question, context, tuple(a for a in placed if a is not None), where)


def _questions(path: Path) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield context, raw question and its place in the file."""
    if path.is_dir() or suffix_of(path) != ".json" or json_shape(path) != "document":
        yield from _flat_questions(table_rows(path))
        return
    document = read_document(path)
    if document["data"] and "paragraphs" not in document["data"][0]:
        yield from _flat_questions(table_rows(path))
        return
    for article_index, article in enumerate(document["data"]):
        for index, paragraph in enumerate(article["paragraphs"]):
            where = f"{path}: data[{article_index}].paragraphs[{index}]"
            context = check_text(paragraph["context"], where, "context")
            for question in paragraph["qas"]:
                yield context, question, f"{path}: question {question['id']!r}"


def _flat_questions(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the same of flat rows; a row without ``id`` gets its number from 0."""
    for number, (where, row) in enumerate(rows):
        question = {"id": number, **row, "answers": flat_answers(row.get("answers"), where)}
        yield check_text(row["context"], where, "context"), question, where


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
                    f"  allowed: {_FLAT}, whose answers may be the text of such an object"
                ) from error
    if isinstance(cell, dict):
        texts, starts = cell["text"], cell["answer_start"] if cell["text"] else []
        if isinstance(texts, str):
            texts, starts = [texts], [starts]
        return [
            {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
        ]
    return list(cell or []) if not isinstance(cell, str) else []


def _example(
    context: str, question: Mapping[str, Any], where: str, findings: _Findings
) -> SpanExample | None:
    """Return a question; None, with an error in ``findings``, if it has answers and all are bad."""
    answers = [answer for answer in question.get("answers") or [] if not _is_none(answer)]
    impossible = question.get("is_impossible")
    if impossible and answers:
        findings.contradictory.append(where)
        answers = []
    placed = [
        _placed(context, answer.get("text"), answer.get("answer_start"), where, findings)
        for answer in answers
    ]
    usable = tuple(answer for answer in placed if answer is not None)
    if impossible is False and "answers" in question and not answers:
        findings.errors.append(f"{where} says is_impossible: false but has no answers")
        findings.num_dropped += 1
        return None
    if answers and not usable:
        findings.num_dropped += 1
        return None
    return SpanExample(
        id=str(question["id"]),
        question=check_text(question["question"], where, "question"),
        context=context,
        answers=usable,
        where=where,
    )


def _is_none(answer: Any) -> bool:
    """Return True for the empty answer by which some copies say that there is none."""
    start = answer.get("answer_start")
    return answer.get("text") == "" and (start is None or (isinstance(start, int) and start <= 0))


def _placed(
    context: str, text: object, start: object, where: str, findings: _Findings
) -> Answer | None:
    """Return the answer at its real offset; None, with an error in ``findings``, if it has none."""
    if not isinstance(text, str) or not text.strip() or not isinstance(start, int):
        findings.errors.append(f"{where} has the answer {text!r} at answer_start={start!r}")
        return None
    is_there = start >= 0 and context.startswith(text, start)
    if is_there and _is_whole(context, start, len(text)):
        return Answer(text, start)
    moved = _in_other_units(context, text, start)
    if moved is None:
        if is_there:
            return Answer(text, start)
        moved = _nearest(context, text, start)
    if moved is None:
        found = context[max(start, 0) : max(start, 0) + len(text)]
        findings.errors.append(
            f"{where} answer_start={start}: {text!r} expected, {found!r} is there"
            + _normalization(context, text)
        )
        return None
    findings.repaired.append(f"{where} answer_start={start} -> {moved}: {text!r}")
    return Answer(text, moved)


def _is_whole(context: str, start: int, length: int) -> bool:
    """Return True unless these characters are part of a longer word."""

    def joined(left: str, right: str) -> bool:
        if unicodedata.category(right)[0] == "M":
            return True
        no_spaces = _WITHOUT_SPACES.match(left) or _WITHOUT_SPACES.match(right)
        return _is_letter(left) and _is_letter(right) and not no_spaces

    end = start + length
    starts_inside = start > 0 and joined(context[start - 1], context[start])
    ends_inside = end < len(context) and joined(context[end - 1], context[end])
    return not (starts_inside or ends_inside)


def _is_letter(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _in_other_units(context: str, text: str, start: int) -> int | None:
    """Return where an offset in UTF-16 units (web annotators) or UTF-8 bytes points, if the text is
    there as a whole.
    """
    if context.isascii() or start < 0:
        return None
    for encoding, width in (("utf-16-le", 2), ("utf-8", 1)):
        before = context.encode(encoding)[: start * width]
        place = len(before.decode(encoding, "ignore"))
        there = place != start and context.startswith(text, place)
        if there and _is_whole(context, place, len(text)):
            return place
    return None


def _nearest(context: str, text: str, start: int) -> int | None:
    """Return the occurrence nearest to ``start`` within 64 characters that is no part of a longer
    word; of two, the earlier.
    """
    first, last = max(start - _NEARBY_CHARACTERS, 0), max(start, 0) + _NEARBY_CHARACTERS
    near = []
    place = context.find(text, first, last + len(text))
    while place >= 0:
        if _is_whole(context, place, len(text)):
            near.append(place)
        place = context.find(text, place + 1, last + len(text))
    return min(near, key=lambda place: (abs(place - start), place)) if near else None


def _normalization(context: str, text: str) -> str:
    """Return a remark for a text that the context has in another Unicode normalisation."""
    composed = unicodedata.normalize("NFC", text)
    if text in context or composed not in unicodedata.normalize("NFC", context):
        return ""
    forms = ("NFC", "NFD") if text == composed else ("NFD", "NFC")
    return (
        f"; the answer is in Unicode {forms[0]}, the context in {forms[1]}: write both in one "
        "(unicodedata.normalize)"
    )


def _report(path: str, examples: list[SpanExample], findings: _Findings) -> None:
    """Warn of repaired and dropped questions. Raises ``DataError`` if most cannot be used."""
    if findings.num_dropped > len(examples):
        raise DataError(
            f"{path}: {len(findings.errors)} answers cannot be used\n  "
            f"{first_faults(findings.errors)}\n"
            "  fix: count answer_start in characters from 0, or remove these questions"
        )
    require_unique(path, examples)
    if findings.errors:
        _log.warning(
            "%s: dropped %d answers that cannot be used, and with them %d of %d questions: %s",
            path, len(findings.errors), findings.num_dropped,
            len(examples) + findings.num_dropped, first_faults(findings.errors),
        )  # fmt: skip
    if findings.repaired:
        _log.warning(
            "%s: moved %d answers to where they stand: %s",
            path, len(findings.repaired), first_faults(findings.repaired),
        )  # fmt: skip
    if findings.contradictory:
        _log.warning(
            "%s: dropped the answers of %d questions with is_impossible: true: %s",
            path, len(findings.contradictory), first_faults(findings.contradictory),
        )  # fmt: skip
