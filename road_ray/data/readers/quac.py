"""QuAC, dialogs of questions about a text.

Layout: SQuAD JSON; each question also has ``yesno`` and ``followup`` labels, and an answer
``orig_answer``. A context ends with the word CANNOTANSWER, which is removed here.
Source: Choi et al. 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.data.readers.tables import Row, read_document
from road_ray.errors import DataError

FORM = (
    '{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers", "yesno", '
    '"followup"}]}]}]}'
)
YES_NO, CONTINUE = "quac_yes_no", "quac_continue"
_NONE = "CANNOTANSWER"
_YES_NO = {"y": "yes", "n": "no", "x": "neither"}
_CONTINUE = {"y": "follow up", "m": "maybe", "n": "stop"}


def quac_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions as flat rows of SQuAD, each with the dialog before it (``history``), its
    labels (``further``) and the answers of all annotators (``references``).

    The answers are the spans of all annotators, that of ``orig_answer`` first; none if half of the
    annotators or more say CANNOTANSWER, as in the official scorer. Raises ``DataError`` naming the
    question for a label that QuAC does not have.
    """
    for article in read_document(path)["data"]:
        for paragraph in article["paragraphs"]:
            yield from _dialog(paragraph, path)


def with_history(example: SpanExample, turns: int) -> SpanExample:
    """Return the example with the last ``turns`` exchanges appended to its question, newest first.

    Truncation of the question then drops the oldest.
    """
    before = example.history[::-1][: 2 * turns]
    exchanges = [" ".join(before[i : i + 2][::-1]) for i in range(0, len(before), 2)]
    return replace(example, question=" ".join([example.question, *exchanges]))


def _dialog(paragraph: Row, path: Path) -> Iterator[tuple[str, Row]]:
    history: list[str] = []
    for turn in paragraph["qas"]:
        where = f"{path}: question {turn['id']!r}"
        answers = [turn["orig_answer"]] if "orig_answer" in turn else []
        answers += [answer for answer in turn["answers"] if answer not in answers]
        texts = [answer["text"] for answer in turn["answers"] or answers]
        answered = 2 * texts.count(_NONE) < len(texts)
        labels = (
            (YES_NO, _label(turn["yesno"], _YES_NO, where, "yesno")),
            (CONTINUE, _label(turn["followup"], _CONTINUE, where, "followup")),
        )
        yield (
            where,
            {
                "id": turn["id"],
                "question": turn["question"],
                "context": paragraph["context"].removesuffix(_NONE).rstrip(),
                "answers": [answer for answer in answers if answered and answer["text"] != _NONE],
                "further": labels,
                "history": tuple(history),
                "references": tuple(text for text in texts if answered and text != _NONE),
            },
        )
        first = answers[0]["text"] if answers else _NONE
        history += [turn["question"], "unknown" if first == _NONE else first]


def _label(value: str, known: dict[str, str], where: str, field: str) -> str:
    if value not in known:
        raise DataError(f"{where}: {field} = {value!r}\n  allowed: {', '.join(known)}")
    return known[value]
