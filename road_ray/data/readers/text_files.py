"""Lines and JSON of text files, plain or compressed, with file and line in every error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from road_ray.errors import DataError, ResourceError, shorten
from road_ray.system.files import DAMAGED, ReadableFile, open_bytes

_BOM = b"\xef\xbb\xbf"


def numbered_lines(path: ReadableFile, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines of a plain or compressed file, without BOM and, unless
    ``ends``, without line end.

    Raises ``DataError`` with ``file:line`` for bytes that are not UTF-8 and damaged compression.
    """
    number = 0
    try:
        with open_bytes(path) as file:
            for number, line in decoded_lines(file, str(path), ends=ends):
                yield number, line
    except (*DAMAGED, OSError) as error:
        raise _unreadable(f"{path}:{number + 1}", error) from error


def decoded_lines(file: IO[bytes], name: str, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines of an open file, as ``numbered_lines`` does."""
    for number, raw in enumerate(file, 1):
        text = _decoded(raw.removeprefix(_BOM) if number == 1 else raw, f"{name}:{number}")
        yield number, text if ends else text.rstrip("\r\n")


def parse_json_line(line: str, where: str) -> dict[str, object]:
    """Return the object on one line of JSONL. Raises ``DataError`` with line and column."""
    row = _parse_json(line, where)
    if not isinstance(row, dict):
        raise DataError(f"{where}: a JSON object was expected, seen {shorten(line)!r}")
    return row


def read_document(path: Path) -> Any:
    """Return the content of a JSON file, plain or compressed. Raises ``DataError`` with the
    line.
    """
    try:
        with open_bytes(path) as file:
            raw = file.read()
    except (*DAMAGED, OSError) as error:
        raise _unreadable(str(path), error) from error
    return _parse_json(_decoded(raw.removeprefix(_BOM), str(path)), str(path))


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: broken JSON: {error}; seen {shorten(text)!r}\n"
            "  fix: write the file again as JSON; in a .jsonl file, one object a line"
        ) from error


def _decoded(raw: bytes, where: str) -> str:
    try:
        text = raw.decode("utf-8")
        seen = f"NUL at byte {raw.index(0) + 1}" if "\0" in text else ""
    except UnicodeDecodeError as error:
        seen = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1}"
    if seen:
        encoding = "utf-16" if b"\0" in raw else "latin1"
        raise DataError(
            f"{where}: not UTF-8: {seen}\n  fix: convert the file, for instance "
            f"iconv -f {encoding} -t utf-8 OLD > NEW"
        )
    return text


def _unreadable(where: str, error: Exception) -> DataError | ResourceError:
    """Return the error of a damaged file, or of one that the operating system does not open."""
    if isinstance(error, DAMAGED):
        return DataError(
            f"{where}: the compressed file is damaged or cut short ({error})\n"
            "  fix: download the file again"
        )
    return ResourceError(f"{where}: cannot be read: {error}\n  fix: name a file that can be read")
