"""QuAC: dialogs about a text, with spans, yes or no, and whether to ask on.

Source: Choi et al. 2018; the text ends with the word CANNOTANSWER, which is taken off here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from road_ray.data.features.types import SpanExample
from road_ray.data.readers.files import MISFITS
from road_ray.data.readers.squad import read_document, refuse_repeated_questions, span_example
from road_ray.errors import DataError

YES_NO, CONTINUE = "quac_yes_no", "quac_continue"
_NONE = "CANNOTANSWER"
_YES_NO = {"y": "yes", "n": "no", "x": "neither"}
_CONTINUE = {"y": "follow up", "m": "maybe", "n": "stop"}


def read_quac(path: Path) -> list[SpanExample]:
    """Every question, with the questions and answers before it; the crowd's own answer is learnt.

    Raises ``DataError`` naming the question for a label or a layout that QuAC does not have.
    """
    examples: list[SpanExample] = []
    try:
        for article in read_document(path)["data"]:
            for paragraph in article["paragraphs"]:
                examples += _dialog(paragraph, path)
    except MISFITS as error:
        raise DataError(
            f"{path}: not in QuAC layout: {type(error).__name__} {error}\n"
            '  wanted: {"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers",'
            ' "yesno", "followup"}]}]}]}'
        ) from error
    refuse_repeated_questions(path, examples)
    if not examples:
        raise DataError(f"{path}: 0 questions")
    return examples


def with_history(example: SpanExample, turns: int) -> SpanExample:
    """The question followed by the last ``turns`` exchanges, the newest first: a question that is
    cut loses the oldest.
    """
    before = example.history[::-1][: 2 * turns]
    exchanges = [" ".join(before[i : i + 2][::-1]) for i in range(0, len(before), 2)]
    return replace(example, question=" ".join([example.question, *exchanges]))


def _dialog(paragraph: dict[str, Any], path: Path) -> list[SpanExample]:
    context = paragraph["context"].removesuffix(_NONE).rstrip()
    found: list[SpanExample] = []
    history: list[str] = []
    for turn in paragraph["qas"]:
        where = f"{path}: question {turn['id']!r}"
        answers = [turn["orig_answer"]] if "orig_answer" in turn else []
        answers += [answer for answer in turn["answers"] if answer not in answers]
        placed = [(a["text"], a["answer_start"]) for a in answers if a["text"] != _NONE]
        labels = (
            (YES_NO, _label(turn["yesno"], _YES_NO, where, "yesno")),
            (CONTINUE, _label(turn["followup"], _CONTINUE, where, "followup")),
        )
        example = span_example(str(turn["id"]), turn["question"], context, placed, where)
        found.append(replace(example, labels=labels, history=tuple(history)))
        history += [turn["question"], answers[0]["text"] if placed else "unknown"]
    return found


def _label(said: str, known: dict[str, str], where: str, field: str) -> str:
    if said not in known:
        raise DataError(f"{where}: {field} = {said!r}\n  allowed: {', '.join(known)}")
    return known[said]
