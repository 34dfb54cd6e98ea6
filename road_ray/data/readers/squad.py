"""Reader of SQuAD 1.1 and 2.0, and of data sets in their layout such as NewsQA and DuoRC.

Layout: one JSON file, ``_LAYOUT`` below, or a table of the flat rows of Hugging Face's copy,
``_FLAT``. Each answer has ``text`` and ``answer_start``, in characters of the context. Source:
Rajpurkar et al. 2016 and 2018.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
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
from road_ray.errors import DataError

# An offset counted in bytes, or before a cleaning step, is off by a few characters. Farther away
# the same words are likely another mention.
_NEARBY_CHARACTERS = 64

_LAYOUT = '{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers"}]}]}]}'
_FLAT = '{"id", "context", "question", "answers": {"text": [...], "answer_start": [...]}}'

_log = logging.getLogger(__name__)


@dataclass
class _Findings:
    """Faults of one file."""

    errors: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    contradictory: list[str] = field(default_factory=list)


def read_squad(path: Path) -> list[SpanExample]:
    """Return the questions of a file in its order.

    A question without ``answers`` is unanswerable; ``plausible_answers`` are ignored. Answers of a
    question with ``is_impossible: true`` are dropped with a warning. An answer that is not at its
    offset is moved to its nearest occurrence within 64 characters, with a warning. Raises
    ``DataError`` that lists answers without such an occurrence, or repeated ids.
    """
    findings = _Findings()
    try:
        examples = [
            _example(context, question, where, findings)
            for context, question, where in _questions(path)
        ]
    except MISFITS as error:
        raise DataError(
            f"{path}: not in SQuAD layout: {type(error).__name__} {error}\n"
            f"  allowed: {_LAYOUT}\n  or rows: {_FLAT}"
        ) from error
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


def _questions(path: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
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
    rows: Iterable[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the same of flat rows; a row without ``id`` gets its number from 0."""
    for number, (where, row) in enumerate(rows):
        answers = row.get("answers") or []
        if isinstance(answers, dict):
            pairs = zip(answers["text"], answers["answer_start"], strict=True)
            answers = [{"text": text, "answer_start": start} for text, start in pairs]
        question = {"id": number, **row, "answers": answers}
        yield check_text(row["context"], where, "context"), question, where


def _example(
    context: str, question: dict[str, Any], where: str, findings: _Findings
) -> SpanExample:
    answers = question.get("answers") or []
    impossible = question.get("is_impossible")
    if impossible and answers:
        findings.contradictory.append(where)
        answers = []
    if impossible is False and "answers" in question and not answers:
        findings.errors.append(f"{where} says is_impossible: false but has no answers")
    placed = [
        _placed(context, answer.get("text"), answer.get("answer_start"), where, findings)
        for answer in answers
    ]
    return SpanExample(
        id=str(question["id"]),
        question=check_text(question["question"], where, "question"),
        context=context,
        answers=tuple(answer for answer in placed if answer is not None),
        where=where,
    )


def _placed(
    context: str, text: object, start: object, where: str, findings: _Findings
) -> Answer | None:
    """Return the answer at its real offset; None, with an error in ``findings``, if it has none."""
    if not isinstance(text, str) or not text.strip() or not isinstance(start, int):
        findings.errors.append(f"{where} has the answer {text!r} at answer_start={start!r}")
        return None
    if start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    found_text = context[max(start, 0) : max(start, 0) + len(text)]
    moved = _nearest(context, text, start)
    if moved is None:
        findings.errors.append(
            f"{where} answer_start={start}: {text!r} expected, {found_text!r} is there"
        )
        return None
    findings.repaired.append(f"{where} answer_start={start} -> {moved}: {text!r}")
    return Answer(text, moved)


def _nearest(context: str, text: str, start: int) -> int | None:
    """Return the occurrence nearest to ``start`` within 64 characters; of two, the earlier."""
    reach = _NEARBY_CHARACTERS
    after = context.find(text, max(start, 0), max(start, 0) + reach + len(text))
    before = context.rfind(text, max(start - reach, 0), max(start, 0) + len(text))
    near = [place for place in (before, after) if place >= 0]
    return min(near, key=lambda place: (abs(place - start), place)) if near else None


def _report(path: Path, examples: list[SpanExample], findings: _Findings) -> None:
    """Warn of repaired questions. Raises ``DataError`` for answers that cannot be repaired."""
    if findings.errors:
        raise DataError(
            f"{path}: {len(findings.errors)} answers cannot be used\n  "
            f"{first_faults(findings.errors)}\n"
            "  fix: count answer_start in characters from 0, or remove these questions"
        )
    require_unique(path, examples)
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
