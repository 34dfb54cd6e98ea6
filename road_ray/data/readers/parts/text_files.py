"""Parts that readers share: lines and JSON of a file, checks, error messages.

Every error names file and line.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from road_ray.errors import DataError, ResourceError, nearest, shorten
from road_ray.system.compression import DAMAGED, ReadableFile, open_bytes

if TYPE_CHECKING:  # configuration imports this module, and loads without numpy
    from road_ray.data.features.examples_and_features import Example

_Name = TypeVar("_Name", bound=Hashable)
LONGEST_LINE = 64 << 20  # bytes; a book has about 1 MiB
_LARGEST_DOCUMENT = 2 << 30  # bytes; parsed JSON takes several times as much memory
_HEAD = 1 << 20  # bytes of a JSON file that show whether it is one
_BOM = b"\xef\xbb\xbf"
_NUL = "  fix: write the file as UTF-8 text; it is binary, UTF-16 or damaged"
_LISTED = 5  # faults that a message shows
# Exceptions of indexing a value that has another shape than its layout.
MISFITS = (KeyError, TypeError, AttributeError, ValueError, IndexError)


def numbered_lines(path: ReadableFile, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines of a plain or compressed file, without BOM and, unless
    ``ends``, without line end.

    Raises ``DataError`` with ``file:line`` for bytes that are not UTF-8, NUL, damaged compression
    and lines of more than 64 MiB.
    """
    number = 0
    try:
        with open_bytes(path) as file:
            for number, line in decoded_lines(file, str(path), ends=ends):
                yield number, line
    except DAMAGED as error:
        raise DataError(
            f"{path}:{number + 1}: the {path.suffix[1:]} stream is damaged or cut short "
            f"({error})\n"
            f"  fix: download the file again; {number} lines before it are readable"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def decoded_lines(file: IO[bytes], name: str, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines of an open file, as ``numbered_lines`` does."""
    for number, raw in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), 1):
        if len(raw) == LONGEST_LINE:
            raise DataError(
                f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MiB\n"
                "  fix: write one paragraph a line, or JSONL with one document a line"
            )
        line = raw.removeprefix(_BOM) if number == 1 else raw
        text = _decoded(line, f"{name}:{number}")
        yield number, text if ends else text.rstrip("\r\n")


def parse_json_line(line: str, where: str) -> dict[str, object]:
    """Return the object on one line of JSONL. Raises ``DataError`` with line and column."""
    try:
        row = parse_json(line, where)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}: broken JSON at column {error.colno}: {error.msg}; seen {shorten(line)!r}\n"
            "  fix: write one JSON object a line"
        ) from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: a JSON object was expected, seen {shorten(line)!r}")
    return row


def parse_json(text: str, where: str) -> Any:
    """Return the value of JSON text. Raises ``JSONDecodeError`` for broken JSON, and ``DataError``
    for a repeated key in one object, integers of thousands of digits and deep nesting.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = repeated(name for name, _ in pairs)
            raise DataError(
                f"{where}: the key {names[0]!r} occurs twice in one object\n"
                "  fix: remove one of the two, or give it another name"
            )
        return content

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        problem = (
            "brackets are nested too deep" if isinstance(error, RecursionError) else str(error)
        )
        raise DataError(
            f"{where}: unsupported JSON: {problem.split(';')[0]}\n"
            "  allowed: integers of at most 4,300 digits, brackets at most some hundred deep\n"
            "  fix: write longer numbers as text, or remove that value"
        ) from error


def read_document(path: Path) -> Any:
    """Return the content of a plain or ``.gz`` JSON file. Raises ``DataError`` with the line."""
    try:
        raw = _document_bytes(path)
        if not raw.strip():
            raise DataError(f"{path}: the file is empty\n  fix: name a file with rows")
        text = raw.decode("utf-8-sig")
        if "\x00" in text[:_HEAD]:
            raise DataError(f"{path}: NUL byte at byte {raw.index(0) + 1}\n{_NUL}")
        return parse_json(text, str(path))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: broken JSON at column {error.colno}: {error.msg}\n"
            "  fix: download the file again; it may be truncated"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1}"
            f"\n  fix: {_conversion(error.object)}"
        ) from error
    except DAMAGED as error:
        raise DataError(f"{path}: the gzip stream is damaged or cut short ({error})") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _document_bytes(path: Path) -> bytes:
    """Return the bytes of a JSON file, or only the first ones if it does not begin as one: whatever
    its size, its fault is there.
    """
    with open_bytes(path) as file:
        head = file.read(_HEAD)
        if head.removeprefix(_BOM).lstrip()[:1] not in (b"{", b"["):
            return head
    with open_bytes(path) as file:
        raw = file.read(_LARGEST_DOCUMENT + 1)  # a small .gz may hold any number of bytes
    if len(raw) > _LARGEST_DOCUMENT:
        raise DataError(
            f"{path}: one JSON value of more than {_LARGEST_DOCUMENT >> 30} GiB\n"
            "  fix: write JSONL, one object a line, or parquet"
        )
    return raw


def repeated(names: Iterable[_Name]) -> list[_Name]:
    """Return the names that occur more than once, in the order of their second occurrence."""
    seen: set[_Name] = set()
    duplicates: dict[_Name, None] = {}
    for name in names:
        if name in seen:
            duplicates[name] = None
        seen.add(name)
    return list(duplicates)


def refuse_repeated_ids(path: Path | str, examples: Iterable[Example]) -> None:
    """Raise ``DataError`` if several examples share an id."""
    first: dict[str, str] = {}
    duplicates: list[str] = []
    for example in examples:
        if example.id in first:
            duplicates.append(f"id {example.id!r} at {example.where}, first at {first[example.id]}")
        first.setdefault(example.id, example.where)
    if duplicates:
        raise DataError(
            f"{path}: {len(duplicates)} examples repeat an id\n  {first_faults(duplicates)}\n"
            "  fix: remove the copies; predictions are keyed by id"
        )


def require_unique(path: Path | str, examples: Sequence[Example]) -> None:
    """Raise ``DataError`` if there are no questions, or several share an id."""
    if not examples:
        raise DataError(f"{path}: 0 questions\n  fix: download or write the file again")
    refuse_repeated_ids(path, examples)


def refuse_repeated_columns(names: Sequence[str], where: str) -> None:
    """Raise ``DataError`` for a header that repeats a column."""
    if twice := repeated(names):
        raise DataError(
            f"{where}: the header names {', '.join(map(repr, twice))} twice; "
            f"columns: {shorten(', '.join(names), 200)}\n"
            "  fix: rename or remove the copies"
        )


def unreadable(path: ReadableFile, error: OSError) -> ResourceError:
    """Return the error for a file that the operating system does not let us read."""
    return ResourceError(
        f"{path}: cannot be read: {error.strerror or error}\n"
        "  fix: give a file that this user can read"
    )


def check_text(text: object, where: str, column: str | int) -> str:
    """Return ``text``. Raises ``DataError`` unless it is a string that UTF-8 can encode."""
    if not isinstance(text, str):
        raise DataError(f"{where}: column {column!r} must be text, seen {shorten(repr(text))}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                f"{where}: column {column!r} holds a lone surrogate "
                f"U+{ord(text[error.start]):04X} at character {error.start}\n"
                "  fix: write the file again as UTF-8; half of a surrogate pair was lost"
            ) from error
    return text


def missing_columns(where: str, missing: Sequence[str | int], existing: Sequence[str | int]) -> str:
    """Return the message for missing columns, with the existing and the nearest names."""
    known = [str(name) for name in existing]
    hints = [nearest(str(name), known) for name in missing]
    near = [f"{name!r} -> {hint!r}" for name, hint in zip(missing, hints, strict=True) if hint]
    return (
        f"{where}: no column {', '.join(repr(name) for name in missing)}; found: {', '.join(known)}"
        + (f"; nearest: {', '.join(near)}" if near else "")
        + "\n  fix: correct the header of the file; for a data set of your own, set its keys "
        "(data.sets.NAME.text, .label, .id) to columns of the file"
    )


def first_faults(lines: Sequence[str]) -> str:
    """Return the first five faults, one a line, and the number of the others."""
    num_others = len(lines) - _LISTED
    return "\n  ".join([*lines[:_LISTED], *([f"and {num_others} more"] if num_others > 0 else [])])


def _decoded(raw: bytes, where: str) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: not UTF-8: byte 0x{raw[error.start]:02x} "
            f"at byte {error.start + 1} of the line\n"
            f"  fix: {_conversion(raw)}"
        ) from error
    if "\x00" in text:
        raise DataError(f"{where}: NUL byte at byte {raw.index(0) + 1} of the line\n{_NUL}")
    return text


def _conversion(raw: bytes) -> str:
    """Return the command that converts a file that begins with these bytes."""
    wide = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    encoding = "utf-16" if wide else "latin1"
    about = "it is UTF-16; " if wide else ""
    return f"{about}convert the file, for instance iconv -f {encoding} -t utf-8 OLD > NEW"
