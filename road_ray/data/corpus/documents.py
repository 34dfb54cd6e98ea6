"""Reader of a raw text corpus, one string a document.

Layout: parquet, Arrow (``Dataset.save_to_disk``), JSONL or plain text; the last two may be
compressed. Column: ``text``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from road_ray.data.readers.parts.tables import arrow_rows, parquet_rows
from road_ray.data.readers.parts.text_files import check_text, numbered_lines, parse_json_line
from road_ray.errors import DataError
from road_ray.system.compression import SUFFIXES

_SUFFIXES = (
    *(".parquet", ".arrow", ".jsonl", ".txt"),
    *(kind + packed for kind in (".jsonl", ".txt") for packed in SUFFIXES),
)
_LONGEST_DOCUMENT = 4 << 20  # characters of plain text; a longer document is split


def read_corpus(path: Path) -> Iterator[str]:
    """Yield the documents of a file, or of all files below a directory in order of their names.

    Parquet and JSONL hold a document in the column ``text``; in plain text a blank line separates
    documents. Empty documents are skipped. Raises ``DataError`` if a file cannot be read or there
    are no documents.
    """
    count = 0
    for file in _files(path):
        for document in _documents(file):
            if document.strip():
                count += 1
                yield document
    if not count:
        raise DataError(f"{path}: 0 documents\n  fix: point `corpus` at a file with text")


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(
            f"{path}: no such file or directory\n  fix: check `corpus` of the configuration"
        )
    files = sorted(f for f in path.rglob("*") if f.is_file() and f.name.endswith(_SUFFIXES))
    if not files:
        found = ", ".join(sorted(f.name for f in path.iterdir())[:5]) or "nothing"
        raise DataError(
            f"{path}: no corpus file below it; found {found}; wanted {', '.join(_SUFFIXES)}"
        )
    return files


def _documents(path: Path) -> Iterator[str]:
    if path.name.endswith(".parquet"):
        for row, found in enumerate(parquet_rows(path, ["text"]), 1):
            yield check_text(found["text"], f"{path}:{row}", "text")
    elif path.name.endswith(".arrow"):
        for row, found in enumerate(arrow_rows(path, ["text"]), 1):
            yield check_text(found["text"], f"{path}:{row}", "text")
    elif ".jsonl" in path.suffixes[-2:]:
        for number, line in numbered_lines(path):
            if line.strip():
                where = f"{path}:{number}"
                yield check_text(parse_json_line(line, where).get("text"), where, "text")
    else:
        yield from _paragraphs(path)


def _paragraphs(path: Path) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for _, line in numbered_lines(path):
        if line.strip():
            lines.append(line)
            size += len(line)
        if lines and (not line.strip() or size >= _LONGEST_DOCUMENT):
            yield "\n".join(lines)
            lines, size = [], 0
    if lines:
        yield "\n".join(lines)
