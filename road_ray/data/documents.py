"""Documents of a raw text corpus, one string each, streamed from parquet, JSONL or plain text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from road_ray.data.files import numbered_lines, parquet_rows, parse_json_line, well_formed
from road_ray.errors import DataError

_SUFFIXES = (".parquet", ".jsonl", ".txt", ".jsonl.gz", ".txt.gz")


def read_corpus(path: Path) -> Iterator[str]:
    """Documents of a file, or of all files below a directory in the order of their names.

    Parquet and JSONL hold a document in the column ``text``; in plain text a blank line separates
    documents. Empty documents are skipped. Raises ``DataError`` where a file cannot be read, and
    when nothing was found.
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
            yield well_formed(found["text"], f"{path}:{row}", "text")
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        for number, line in numbered_lines(path):
            if line.strip():
                where = f"{path}:{number}"
                yield well_formed(parse_json_line(line, where).get("text"), where, "text")
    else:
        yield from _paragraphs(path)


def _paragraphs(path: Path) -> Iterator[str]:
    lines: list[str] = []
    for _, line in numbered_lines(path):
        if line.strip():
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)
