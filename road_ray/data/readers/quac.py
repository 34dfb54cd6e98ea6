"""Reader of QuAC, dialogs of questions about a text.

Layout: SQuAD JSON; each question also has ``yesno`` and ``followup`` labels, and an answer
``orig_answer``. A context ends with the word CANNOTANSWER, which is removed here.
Source: Choi et al. 2018.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.data.readers.parts.text_files import MISFITS, read_document, require_unique
from road_ray.data.readers.squad import span_example
from road_ray.errors import DataError

YES_NO, CONTINUE = "quac_yes_no", "quac_continue"
_NONE = "CANNOTANSWER"
_YES_NO = {"y": "yes", "n": "no", "x": "neither"}
_CONTINUE = {"y": "follow up", "m": "maybe", "n": "stop"}


def read_quac(path: Path) -> list[SpanExample]:
    """Return the questions, each with its dialog so far.

    The answers are the spans of all annotators, that of ``orig_answer`` first; none if half of the
    annotators or more say CANNOTANSWER, as in the official scorer. Raises ``DataError`` naming the
    question for a label or a layout that QuAC does not have.
    """
    examples: list[SpanExample] = []
    try:
        for article in read_document(path)["data"]:
            for paragraph in article["paragraphs"]:
                examples += _dialog(paragraph, path)
    except MISFITS as error:
        raise DataError(
            f"{path}: not in QuAC layout: {type(error).__name__} {error}\n"
            '  allowed: {"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers",'
            ' "yesno", "followup"}]}]}]}'
        ) from error
    require_unique(path, examples)
    return examples


def with_history(example: SpanExample, turns: int) -> SpanExample:
    """Return the example with the last ``turns`` exchanges appended to its question, newest first.

    Truncation of the question then drops the oldest.
    """
    before = example.history[::-1][: 2 * turns]
    exchanges = [" ".join(before[i : i + 2][::-1]) for i in range(0, len(before), 2)]
    return replace(example, question=" ".join([example.question, *exchanges]))


def _dialog(paragraph: dict[str, Any], path: Path) -> list[SpanExample]:
    context = paragraph["context"].removesuffix(_NONE).rstrip()
    examples: list[SpanExample] = []
    history: list[str] = []
    for turn in paragraph["qas"]:
        where = f"{path}: question {turn['id']!r}"
        answers = [turn["orig_answer"]] if "orig_answer" in turn else []
        answers += [answer for answer in turn["answers"] if answer not in answers]
        texts = [answer["text"] for answer in turn["answers"] or answers]
        placed = [(a["text"], a["answer_start"]) for a in answers if a["text"] != _NONE]
        references = [text for text in texts if text != _NONE]
        if 2 * texts.count(_NONE) >= len(texts):
            placed, references = [], []
        labels = (
            (YES_NO, _label(turn["yesno"], _YES_NO, where, "yesno")),
            (CONTINUE, _label(turn["followup"], _CONTINUE, where, "followup")),
        )
        example = span_example(str(turn["id"]), turn["question"], context, placed, where)
        dialog, annotated = tuple(history), tuple(references)
        examples.append(replace(example, labels=labels, history=dialog, references=annotated))
        first = answers[0]["text"] if answers else _NONE
        history += [turn["question"], "unknown" if first == _NONE else first]
    return examples


def _label(value: str, known: dict[str, str], where: str, field: str) -> str:
    if value not in known:
        raise DataError(f"{where}: {field} = {value!r}\n  allowed: {', '.join(known)}")
    return known[value]
