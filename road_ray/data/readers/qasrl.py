"""QA-SRL: questions about the verbs of a sentence, answered by its words (two CSV files a split).

Source: Roit et al. 2020 (the gold-standard release): ``*.gold.csv`` has the questions, and
``*.full.csv`` beside it the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from road_ray.data.features.types import SpanExample
from road_ray.data.readers.files import check_text, missing_columns, shorten, table_rows
from road_ray.data.readers.squad import span_example
from road_ray.errors import DataError

_BETWEEN = "~!~"
_LONGEST_RANGE = 20  # characters
_WANTED = ("qasrl_id", "verb_idx", "question", "answer_range")


def read_qasrl(path: Path) -> list[SpanExample]:
    """Every question; the context is the sentence, token by token. Raises ``DataError`` with
    ``file:line`` for a range outside the sentence and for a question without its sentence.
    """
    suffix = ".gz" if path.suffix == ".gz" else ""
    beside = path.with_name(path.name.replace(".gold.", ".full."))
    if beside == path or not beside.is_file():
        raise DataError(
            f"{path}: no file {beside.name} with its sentences beside it\n"
            f"  wanted: NAME.gold.csv{suffix} and NAME.full.csv{suffix}"
        )
    sentences = {
        str(row["qasrl_id"]): check_text(row["tokens"], where, "tokens").split(" ")
        for where, row in _rows_with(("qasrl_id", "tokens"), beside)
    }
    examples: list[SpanExample] = []
    for number, (where, row) in enumerate(_rows_with(_WANTED, path)):
        name = str(row["qasrl_id"])
        if name not in sentences:
            raise DataError(f"{where}: qasrl_id {name!r} is not in {beside.name}")
        tokens = sentences[name]
        answers = [_answer(part, tokens, where) for part in _ranges(str(row["answer_range"]))]
        question = check_text(row["question"], where, "question")
        key = f"{name}:{row['verb_idx']}:{number}"
        examples.append(span_example(key, question, " ".join(tokens), answers, where))
    if not examples:
        raise DataError(f"{path}: 0 questions")
    return examples


def _rows_with(wanted: Sequence[str], path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for where, row in table_rows(path):
        if missing := [name for name in wanted if name not in row]:
            raise DataError(missing_columns(where, missing, list(row)))
        yield where, row


def _ranges(cell: str) -> list[str]:
    return [part for part in cell.split(_BETWEEN) if part]


def _answer(said: str, tokens: list[str], where: str) -> tuple[str, int]:
    """Text and first character of the tokens ``start:end``."""
    first, _, last = said.partition(":")
    short = len(said) <= _LONGEST_RANGE and first.isdecimal() and last.isdecimal()
    if not (short and int(first) < int(last) <= len(tokens)):
        raise DataError(
            f"{where}: answer_range {shorten(said)!r}, the sentence has {len(tokens)} tokens\n"
            "  allowed: start:end of tokens, the end not included"
        )
    begin, end = int(first), int(last)
    return " ".join(tokens[begin:end]), len(" ".join([*tokens[:begin], ""]))
