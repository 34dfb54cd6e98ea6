"""Questions in the layout of the MRQA 2019 shared task: TriviaQA, Natural Questions and others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from road_ray.data.features.types import SpanExample
from road_ray.data.readers.files import MISFITS, first_faults, numbered_lines, parse_json_line
from road_ray.data.readers.squad import span_example
from road_ray.errors import DataError


def read_mrqa(path: Path) -> list[SpanExample]:
    """All questions of a JSONL file: a header, then one context with its questions a line.

    Every place where an answer was found is a gold answer; the first one is learnt. Raises
    ``DataError`` with ``file:line`` for a line in another layout and for repeated ids.
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
                told = (str(question["qid"]), question["question"], row["context"])
                examples.append(mrqa_example(*told, places, where))
        except MISFITS as error:
            raise DataError(
                f"{where}: not in MRQA layout: {type(error).__name__} {error}\n"
                '  wanted: {"context", "qas": [{"qid", "question", "detected_answers": '
                '[{"char_spans": [[first, last]]}]}]}'
            ) from error
    seen: dict[str, str] = {}
    repeated = [
        f"{e.id!r} at {e.where}, first at {seen[e.id]}"
        for e in examples
        if seen.setdefault(e.id, e.where) != e.where
    ]
    if repeated:
        raise DataError(
            f"{path}: {len(repeated)} questions repeat an id\n  {first_faults(repeated)}"
        )
    if not examples:
        raise DataError(f"{path}: 0 questions")
    return examples


def mrqa_example(
    name: str, question: str, context: str, places: list[tuple[int, int]], where: str
) -> SpanExample:
    """One question whose answers stand at ``(first, last)`` characters of the context."""
    for first, last in places:
        if not 0 <= first <= last < len(context):
            raise DataError(
                f"{where}: question {name!r} has an answer at characters {first} to {last}, "
                f"the context has {len(context)}"
            )
    answers = [(context[first : last + 1], first) for first, last in dict.fromkeys(places)]
    return span_example(name, question, context, answers, f"{where}: question {name!r}")


def from_hub(row: Mapping[str, Any], where: str) -> SpanExample:
    """One question of the hub's copy."""
    places = [
        place
        for spans in row["detected_answers"]["char_spans"]
        for place in zip(spans["start"], spans["end"], strict=True)
    ]
    return mrqa_example(str(row["qid"]), row["question"], row["context"], places, where)
