"""Questions about a context, as in SQuAD 1.1 and 2.0, NewsQA and DuoRC, MRQA, QuAC, QA-SRL, QA-ZRE.

One JSON file, ``FORM`` below, or a table of the flat rows of Hugging Face's copy. Each answer has
``text`` and ``answer_start``, in characters of the context. Source: Rajpurkar et al. 2016 and 2018.
For each other layout, one function yields the flat rows of a file, of its rows or of a question;
its docstring describes the layout. ``flat_rows`` knows those that a row shows.
"""

import ast
import json
import logging
import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from road_ray.data.examples import Answer, SpanExample
from road_ray.data.readers.tables import (
    Row,
    Rows,
    check_text,
    first_faults,
    numbered_lines,
    table_rows,
)
from road_ray.data.task_and_dataset import Dataset
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
YES_NO, CONTINUE = "quac_yes_no", "quac_continue"
_NO_ANSWER = "CANNOTANSWER"
_YES_NO = {"y": "yes", "n": "no", "x": "neither"}
_CONTINUE = {"y": "follow up", "m": "maybe", "n": "stop"}
_SPANS = "detected_answers"  # of MRQA
_OF_QUAC = {"yesno", "followup", "answers"}  # keys of its questions with labels
_NO_ANSWERS = (
    "no question has the key 'answers'\n  fix: [] for one without an answer; a file of questions "
    "that teachers alone teach is named in data.unlabelled"
)

_log = logging.getLogger(__name__)


def flat_rows(rows: Rows) -> Iterator[tuple[str, Row]]:
    """Yield flat rows: the questions of an article of SQuAD or QuAC, of a line of MRQA, or of its
    copy on the hub; all others as they are. Raises ``DataError`` for a question of another shape.
    """
    for where, row in rows:
        try:
            parts, qas = row.get("paragraphs"), row.get("qas")
            if isinstance(parts, list) and all(isinstance(p, dict) and "qas" in p for p in parts):
                for paragraph, question in ((p, q) for p in parts for q in p["qas"]):
                    place = f"{where}: question {question['id']!r}"
                    flat = {**question, "context": paragraph["context"]}
                    yield place, _quac_row(flat) if flat.keys() >= _OF_QUAC else flat
            elif isinstance(qas, list) and all(isinstance(q, dict) and _SPANS in q for q in qas):
                for question in qas:
                    place = f"{where}: question {question['qid']!r}"
                    yield place, _mrqa_row({**question, "context": row["context"]}, place)
            elif isinstance(row.get(_SPANS), dict):
                yield where, _mrqa_row(row, where)
            elif row.keys() != {"header"} or not isinstance(row["header"], dict):  # line 1 of MRQA
                yield where, row
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"{where}: not in the layout of SQuAD, QuAC or MRQA: {error!r}\n  allowed: {FORM}"
            ) from error


def questions(rows: Rows, dataset: Dataset, labelled: bool) -> Iterator[SpanExample]:
    """Yield the questions of flat rows; a row without ``id`` gets its number from 0, unless the
    entry names another column.

    A question without ``answers``, or with an empty one, is unanswerable; in a test split one
    without that key is unlabelled. An answer that is not at its offset is moved, with a warning, to
    its nearest occurrence within 64 characters that is no part of a longer word. Other answers,
    those of a question with ``is_impossible: true``, and questions that have no others, are dropped
    with a warning. Raises ``DataError`` that lists them if these are most of the questions, and if
    no question of a labelled split has the key.
    """
    errors, moved = list[str](), list[str]()
    usable = unusable = keyed = 0
    for number, (where, row) in enumerate(rows):
        answers = flat_answers(row.get("answers"), where)
        context, impossible = check_text(row["context"], where, "context"), row.get("is_impossible")
        keyed += "answers" in row
        found: list[Answer] = []
        for answer in answers:
            text, start = answer.get("text"), answer.get("answer_start")
            place = _place(context, text, start)
            if impossible:
                errors.append(f"{where} says is_impossible: true but has the answer {text!r}")
            elif place is None:
                errors.append(f"{where} answer_start={start!r}: {text!r} is not there")
            else:
                if place != start:
                    moved.append(f"{where} answer_start={start} -> {place}: {text!r}")
                found.append(Answer(str(text), place))
        without = impossible is False and "answers" in row and not answers
        if without:
            errors.append(f"{where} says is_impossible: false but has no answers")
        if without or (answers and not found and not impossible):
            unusable += 1
            continue
        usable += 1
        id = row.get("id", number) if dataset.columns.id is None else row[dataset.columns.id]
        yield SpanExample(
            id=str(id),
            question=check_text(row["question"], where, "question"),
            context=context,
            answers=tuple(found),
            where=where,
            labels=row.get("further", ()),
            labelled=labelled or row.get("answers") is not None,
            references=row.get("references", ()),
            accepted=row.get("accepted", ()),
            language=dataset.language,
        )
    name = f"data set {dataset.name!r}"
    if labelled and usable and not keyed:
        raise DataError(f"{name}: {_NO_ANSWERS}")
    if unusable > usable:
        raise DataError(
            f"{name}: {len(errors)} answers cannot be used\n  {first_faults(errors)}\n"
            "  fix: count answer_start in characters from 0, or remove these questions"
        )
    dropped = f"dropped {len(errors)} answers that cannot be used, and {unusable} questions"
    _warn(f"{dataset.name}: {dropped}", errors)
    _warn(f"{dataset.name}: moved {len(moved)} answers to where they stand", moved)


def _warn(what: str, faults: list[str]) -> None:
    if faults:
        _log.warning("%s: %s", what, first_faults(faults))


def flat_answers(cell: Any, where: str) -> list[dict[str, Any]]:
    """Return the answers of a flat row: a mapping of two lists, a list of mappings, or the text of
    one, as JSON or as Python and pandas write it; without that by which some copies say none.
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
        cell = [{"text": x, "answer_start": y} for x, y in zip(texts, starts, strict=True)]
    answers = list[dict[str, Any]]()
    for answer in [] if isinstance(cell, str) else cell or []:
        start = answer.get("answer_start")
        nowhere = start is None or (isinstance(start, int) and start <= 0)
        if answer.get("text") != "" or not nowhere:
            answers.append(answer)
    return answers


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


def _mrqa_row(question: Row, where: str) -> dict[str, Any]:
    """Return a question of the MRQA 2019 shared task (Fisch et al. 2019): TriviaQA, Natural
    Questions and others.

    JSONL, a header line, then one context with its questions a line, whose ``char_spans`` are first
    and last character. Every detected span is an answer, and training uses the first; the official
    scorer accepts the texts in ``answers``. Raises ``DataError`` for a span outside the context.
    """
    context, detected = question["context"], question[_SPANS]
    if isinstance(detected, dict):  # on the hub
        ends = [[*zip(s["start"], s["end"], strict=True)] for s in detected["char_spans"]]
    else:
        ends = [[(first, last) for first, last in one["char_spans"]] for one in detected]
    answers, length = [], len(check_text(context, where, "context"))
    for first, last in dict.fromkeys(chain.from_iterable(ends)):
        if not 0 <= first <= last < length:
            raise DataError(
                f"{where} has an answer at characters {first} to {last}, the context has {length}"
            )
        answers.append({"text": context[first : last + 1], "answer_start": first})
    found = {"id": question["qid"], "question": question["question"], "context": context}
    return found | {"answers": answers, "accepted": tuple(question.get("answers", ()))}


def _quac_row(turn: Row) -> Row:
    """Return a question of QuAC (Choi et al. 2018) with its labels (``further``) and the answers of
    all annotators (``references``), and without the dialog before it.

    SQuAD's JSON; each question also has ``yesno`` and ``followup``, and an answer ``orig_answer``.
    A context ends with the word CANNOTANSWER, which is removed here. The answers are the spans of
    all annotators, that of ``orig_answer`` first; none if half of the annotators or more say
    CANNOTANSWER, as in the official scorer.
    """
    answers = [turn["orig_answer"]] if "orig_answer" in turn else []
    answers += [answer for answer in turn["answers"] if answer not in answers]
    texts = [answer["text"] for answer in turn["answers"] or answers]
    answered = 2 * texts.count(_NO_ANSWER) < len(texts)
    return {
        "id": turn["id"],
        "question": turn["question"],
        "context": turn["context"].removesuffix(_NO_ANSWER).rstrip(),
        "answers": [a for a in answers if answered and a["text"] != _NO_ANSWER],
        "further": ((YES_NO, _YES_NO[turn["yesno"]]), (CONTINUE, _CONTINUE[turn["followup"]])),
        "references": tuple(text for text in texts if answered and text != _NO_ANSWER),
    }


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
    """Yield the rows of QA-ZRE (Levy et al. 2017), whose questions are about the subject of a
    relation.

    Tab-separated lines without a header, or a conversion to SQuAD JSON. Columns: relation, question
    with ``XXX`` for the subject, subject, sentence, then any number of answers; a question without
    answers is unanswerable. Raises ``DataError`` with ``file:line`` for fewer than four columns.
    """
    if ".json" in path.suffixes:
        yield from table_rows(path)
        return
    for number, line in numbered_lines(path):
        where, cells = f"{path}:{number}", line.split("\t")
        if line and len(cells) < 4:
            raise DataError(f"{where}: {len(cells)} columns, at least 4 wanted: {shorten(line)!r}")
        if line:
            names = ("question", "subject", "context")
            yield where, dict(zip(names, cells[1:4], strict=True)) | {"answers": cells[4:]}


def subject_rows(rows: Rows) -> Iterator[tuple[str, Row]]:
    """Yield flat rows for those of QA-ZRE, also of the copy on the hub; each answer is located at
    its first occurrence.
    """
    for where, row in flat_rows(rows):
        if "subject" in row:
            question, context = row["question"].replace("XXX", row["subject"]), row["context"]
            answers = [{"text": a, "answer_start": context.find(a)} for a in row["answers"] if a]
            id = where.rpartition(":")[2]  # number of the row
            row = {"id": id, "question": question, "context": context, "answers": answers}
        yield where, row
