"""Questions in other layouts than SQuAD's, as flat rows of SQuAD: MRQA, QuAC, QA-SRL, QA-ZRE.

One function a layout yields the rows of a file; its docstring describes the layout. Where the rows
of the copy on the hub differ, one more turns such a row into a flat one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from road_ray.data.readers.squad import squad_rows
from road_ray.data.readers.tables import Row, check_text, numbered_lines, read_document, table_rows
from road_ray.errors import DataError, shorten

MRQA_FORM = (
    '{"context", "qas": [{"qid", "question", "detected_answers": '
    '[{"char_spans": [[first, last]]}]}]} on each line'
)
QUAC_FORM = (
    '{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers", "yesno", '
    '"followup"}]}]}]}'
)
YES_NO, CONTINUE = "quac_yes_no", "quac_continue"
_NO_ANSWER = "CANNOTANSWER"
_YES_NO = {"y": "yes", "n": "no", "x": "neither"}
_CONTINUE = {"y": "follow up", "m": "maybe", "n": "stop"}


def mrqa_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions of the MRQA 2019 shared task (Fisch et al. 2019): TriviaQA, Natural
    Questions and others.

    JSONL, a header line, then one context with its questions a line, whose ``char_spans`` are first
    and last character. Every detected span is an answer, and training uses the first. Raises
    ``DataError`` for a span outside the context.
    """
    for where, row in table_rows(path):
        if "header" in row:
            continue
        if "qas" not in row:
            raise DataError(f"{where}: no 'qas' in the row\n  allowed: {MRQA_FORM}")
        for question in row["qas"]:
            place = f"{where}: question {question['qid']!r}"
            spans = [s for found in question["detected_answers"] for s in found["char_spans"]]
            whole = {**question, "context": row["context"]}
            yield place, _with_spans(whole, map(tuple, spans), place)


def mrqa_from_hub(row: Row, where: str) -> Row:
    """Return a row of the copy on the hub."""
    spans = row["detected_answers"]["char_spans"]
    found = [place for span in spans for place in zip(span["start"], span["end"], strict=True)]
    return _with_spans(row, found, where)


def _with_spans(row: Row, spans: Iterable[tuple[int, ...]], where: str) -> dict[str, Any]:
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


def quac_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions of QuAC (Choi et al. 2018), each with the dialog before it (``history``),
    its labels (``further``) and the answers of all annotators (``references``).

    SQuAD's JSON; each question also has ``yesno`` and ``followup``, and an answer ``orig_answer``.
    A context ends with the word CANNOTANSWER, which is removed here. The answers are the spans of
    all annotators, that of ``orig_answer`` first; none if half of the annotators or more say
    CANNOTANSWER, as in the official scorer. Raises ``DataError`` naming the question for a label
    that QuAC does not have.
    """
    articles = read_document(path)["data"]
    for paragraph in (paragraph for article in articles for paragraph in article["paragraphs"]):
        history: list[str] = []
        context = paragraph["context"].removesuffix(_NO_ANSWER).rstrip()
        for turn in paragraph["qas"]:
            where = f"{path}: question {turn['id']!r}"
            for field, known in (("yesno", _YES_NO), ("followup", _CONTINUE)):
                if turn[field] not in known:
                    allowed = ", ".join(known)
                    raise DataError(f"{where}: {field} = {turn[field]!r}\n  allowed: {allowed}")
            answers = [turn["orig_answer"]] if "orig_answer" in turn else []
            answers += [answer for answer in turn["answers"] if answer not in answers]
            texts = [answer["text"] for answer in turn["answers"] or answers]
            answered = 2 * texts.count(_NO_ANSWER) < len(texts)
            further = (YES_NO, _YES_NO[turn["yesno"]]), (CONTINUE, _CONTINUE[turn["followup"]])
            row = {
                "id": turn["id"],
                "question": turn["question"],
                "context": context,
                "answers": [a for a in answers if answered and a["text"] != _NO_ANSWER],
                "further": further,
                "history": tuple(history),
                "references": tuple(text for text in texts if answered and text != _NO_ANSWER),
            }
            yield where, row
            first = answers[0]["text"] if answers else _NO_ANSWER
            history += [turn["question"], "unknown" if first == _NO_ANSWER else first]


def qasrl_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions of QA-SRL (Roit et al. 2020, the gold-standard release), which are about
    the verbs of a sentence. The context is the sentence, its tokens joined by spaces.

    Two CSV files a split: ``NAME.gold.csv`` with ``qasrl_id``, ``verb_idx``, ``question`` and
    ``answer_range`` (token ranges joined by ``~!~``), ``NAME.full.csv`` with ``qasrl_id`` and
    ``tokens``. Raises ``DataError`` if the second is missing, or with ``file:line`` for a range
    outside its sentence.
    """
    beside = path.with_name(path.name.replace(".gold.", ".full."))
    if beside == path or not beside.is_file():
        raise DataError(
            f"{path}: no file {beside.name} with its sentences beside it\n"
            "  allowed: NAME.gold.csv and NAME.full.csv, or both as .gz"
        )
    sentences = {row["qasrl_id"]: row["tokens"].split(" ") for _, row in table_rows(beside)}
    for number, (where, row) in enumerate(table_rows(path)):
        tokens, answers = sentences.get(row["qasrl_id"]), []
        if tokens is None:
            raise DataError(f"{where}: qasrl_id {row['qasrl_id']!r} is not in {beside.name}")
        for part in filter(None, row["answer_range"].split("~!~")):
            found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", part)
            begin, end = map(int, found.groups()) if found else (0, 0)
            if not begin < end <= len(tokens):
                raise DataError(
                    f"{where}: answer_range {shorten(part)!r}, the sentence has {len(tokens)} "
                    "tokens\n"
                    "  allowed: start:end in tokens, end exclusive"
                )
            start = len(" ".join([*tokens[:begin], ""]))
            answers.append({"text": " ".join(tokens[begin:end]), "answer_start": start})
        id = f"{row['qasrl_id']}:{row['verb_idx']}:{number}"
        context = " ".join(tokens)
        yield where, {"id": id, "question": row["question"], "context": context, "answers": answers}


def zre_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the questions of QA-ZRE (Levy et al. 2017), which are about the subject of a relation.

    Tab-separated lines without a header, or a conversion to SQuAD JSON. Columns: relation, question
    with ``XXX`` for the subject, subject, sentence, then any number of answers; a question without
    answers is unanswerable. Raises ``DataError`` with ``file:line`` for fewer than four columns.
    """
    if ".json" in path.suffixes:
        yield from squad_rows(path)
        return
    for number, line in numbered_lines(path):
        where, cells = f"{path}:{number}", line.split("\t")
        if line and len(cells) < 4:
            raise DataError(f"{where}: {len(cells)} columns, at least 4 wanted: {shorten(line)!r}")
        if line:
            _, question, subject, sentence, *answers = cells
            row = {"question": question, "subject": subject, "context": sentence}
            yield where, zre_from_hub({**row, "answers": answers}, where)


def zre_from_hub(row: Row, where: str) -> Row:
    """Return a row of the copy on the hub; each answer is located at its first occurrence."""
    context = row["context"]
    answers = [{"text": a, "answer_start": context.find(a)} for a in row["answers"] if a]
    question = row["question"].replace("XXX", row["subject"])
    id = where.rpartition(":")[2]  # number of the row
    return {"id": id, "question": question, "context": context, "answers": answers}
