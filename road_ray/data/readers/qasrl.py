"""Reader of QA-SRL, questions about the verbs of a sentence that its words answer.

Layout: two CSV files a split, ``NAME.gold.csv`` with the questions and ``NAME.full.csv`` with the
sentences. Columns: ``qasrl_id``, ``verb_idx``, ``question``, ``answer_range`` (token ranges joined
by ``~!~``), and ``qasrl_id``, ``tokens``. Source: Roit et al. 2020, the gold-standard release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.data.readers.parts.table_rows import table_rows
from road_ray.data.readers.parts.text_files import check_text, missing_columns, require_unique
from road_ray.data.readers.squad import span_example
from road_ray.errors import DataError, shorten

_SEPARATOR = "~!~"
_LONGEST_RANGE = 20  # characters
_COLUMNS = ("qasrl_id", "verb_idx", "question", "answer_range")


def read_qasrl(path: Path) -> list[SpanExample]:
    """Return the questions; the context is the sentence, its tokens joined by spaces.

    Raises ``DataError`` with ``file:line`` for a range outside the sentence, or a question whose
    sentence is missing.
    """
    suffix = ".gz" if path.suffix == ".gz" else ""
    beside = path.with_name(path.name.replace(".gold.", ".full."))
    if beside == path or not beside.is_file():
        raise DataError(
            f"{path}: no file {beside.name} with its sentences beside it\n"
            f"  allowed: NAME.gold.csv{suffix} and NAME.full.csv{suffix}"
        )
    sentences = {
        str(row["qasrl_id"]): check_text(row["tokens"], where, "tokens").split(" ")
        for where, row in _rows_with(("qasrl_id", "tokens"), beside)
    }
    examples: list[SpanExample] = []
    for number, (where, row) in enumerate(_rows_with(_COLUMNS, path)):
        name = str(row["qasrl_id"])
        if name not in sentences:
            raise DataError(f"{where}: qasrl_id {name!r} is not in {beside.name}")
        tokens = sentences[name]
        answers = [_answer(part, tokens, where) for part in _ranges(str(row["answer_range"]))]
        question = check_text(row["question"], where, "question")
        key = f"{name}:{row['verb_idx']}:{number}"
        examples.append(span_example(key, question, " ".join(tokens), answers, where))
    require_unique(path, examples)
    return examples


def _rows_with(columns: Sequence[str], path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for where, row in table_rows(path):
        if missing := [name for name in columns if name not in row]:
            raise DataError(missing_columns(where, missing, list(row)))
        yield where, row


def _ranges(cell: str) -> list[str]:
    return [part for part in cell.split(_SEPARATOR) if part]


def _answer(range_: str, tokens: list[str], where: str) -> tuple[str, int]:
    """Return text and first character of the tokens ``start:end``."""
    first, _, last = range_.partition(":")
    short = len(range_) <= _LONGEST_RANGE and first.isdecimal() and last.isdecimal()
    if not (short and int(first) < int(last) <= len(tokens)):
        raise DataError(
            f"{where}: answer_range {shorten(range_)!r}, the sentence has {len(tokens)} tokens\n"
            "  allowed: start:end in tokens, end exclusive"
        )
    begin, end = int(first), int(last)
    return " ".join(tokens[begin:end]), len(" ".join([*tokens[:begin], ""]))
