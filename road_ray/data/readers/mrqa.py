"""Reader of the MRQA 2019 shared task: TriviaQA, Natural Questions and others.

Layout: JSONL, a header line, then one context with its questions a line: ``context`` and ``qas``,
each with ``qid``, ``question`` and ``detected_answers``, whose ``char_spans`` are first and last
character. Source: Fisch et al. 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.data.readers.parts.text_files import (
    MISFITS,
    numbered_lines,
    parse_json_line,
    require_unique,
)
from road_ray.data.readers.squad import span_example
from road_ray.errors import DataError


def read_mrqa(path: Path) -> list[SpanExample]:
    """Return the questions; every detected span is an answer, and training uses the first.

    Raises ``DataError`` with ``file:line`` for a line in another layout, and for repeated ids.
    """
    examples: list[SpanExample] = []
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        row: dict[str, Any] = parse_json_line(line, where) if line.strip() else {"header": {}}
        if "header" in row:
            continue
        try:
            for question in row["qas"]:
                places = [
                    tuple(span)
                    for answer in question["detected_answers"]
                    for span in answer["char_spans"]
                ]
                parts = (str(question["qid"]), question["question"], row["context"])
                examples.append(mrqa_example(*parts, places, where))
        except MISFITS as error:
            raise DataError(
                f"{where}: not in MRQA layout: {type(error).__name__} {error}\n"
                '  allowed: {"context", "qas": [{"qid", "question", "detected_answers": '
                '[{"char_spans": [[first, last]]}]}]}'
            ) from error
    require_unique(path, examples)
    return examples


def mrqa_example(
    name: str, question: str, context: str, places: list[tuple[int, int]], where: str
) -> SpanExample:
    """Return one question whose answers span the characters ``(first, last)`` of the context."""
    for first, last in places:
        if not 0 <= first <= last < len(context):
            raise DataError(
                f"{where}: question {name!r} has an answer at characters {first} to {last}, "
                f"the context has {len(context)}"
            )
    answers = [(context[first : last + 1], first) for first, last in dict.fromkeys(places)]
    return span_example(name, question, context, answers, f"{where}: question {name!r}")


def from_hub(row: Mapping[str, Any], where: str) -> SpanExample:
    """Return one question of the copy on the hub."""
    places = [
        place
        for spans in row["detected_answers"]["char_spans"]
        for place in zip(spans["start"], spans["end"], strict=True)
    ]
    return mrqa_example(str(row["qid"]), row["question"], row["context"], places, where)
