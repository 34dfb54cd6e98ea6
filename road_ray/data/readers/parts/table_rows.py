"""Rows of a table by column names: CSV, TSV, JSONL, a JSON array, parquet, Arrow, or a folder.

Every row comes with its place, ``file:line``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from road_ray.data.readers.parts.text_files import (
    LONGEST_LINE,
    MISFITS,
    missing_columns,
    numbered_lines,
    parse_json_line,
    read_document,
    refuse_repeated_columns,
)
from road_ray.errors import DataError, shorten
from road_ray.system.compression import DAMAGED, ReadableFile, open_bytes

NESTED = (".jsonl", ".json", ".parquet", ".arrow")  # cells may be lists
TABLES = (".csv", ".tsv", *NESTED)
_HEAD = 1 << 20  # bytes that tell the shape of a JSON file
_COLUMN_BYTES = 4 << 20  # of a parquet column, read at once
csv.field_size_limit(LONGEST_LINE)  # the module's own limit of 131,072 characters is too low


def parquet_rows(path: ReadableFile, only: list[str] | None = None) -> Iterator[dict[str, object]]:
    """Yield the rows of a parquet file, reading 256 at a time; ``only`` selects columns.

    Columns are read in pieces, so a row group of gigabytes is not in memory as a whole.
    """
    import pyarrow.parquet as pq

    with _damage_as_data_error(path, "parquet"):
        source = path if isinstance(path, Path) else path.open("rb")
        file = pq.ParquetFile(source, buffer_size=_COLUMN_BYTES)
        _check_columns(path, file.schema_arrow.names, only)
        for batch in file.iter_batches(batch_size=256, columns=only):
            yield from batch.to_pylist()


def arrow_rows(path: ReadableFile, only: list[str] | None = None) -> Iterator[dict[str, object]]:
    """Yield the rows of an Arrow file (``Dataset.save_to_disk``), a batch in memory at a time."""
    with _damage_as_data_error(path, "Arrow"):
        for batch in _open_arrow(path)[1]:
            # Arrow follows offsets as they are; damaged ones lead out of the file, and a read of
            # memory that is not there ends the process.
            batch.validate(full=True)
            _check_columns(path, batch.schema.names, only)
            yield from (batch.select(only) if only else batch).to_pylist()


def _open_arrow(path: ReadableFile) -> tuple[Any, Iterable[Any]]:
    """Return schema and batches of an Arrow stream or file."""
    import pyarrow as pa

    local = isinstance(path, Path)
    source = pa.memory_map(str(path)) if local else pa.PythonFile(path.open("rb"), "r")
    try:
        stream: Any = pa.ipc.open_stream(source)
    except pa.ArrowInvalid:
        file = pa.ipc.open_file(source)
        return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
    return stream.schema, stream


@contextmanager
def _damage_as_data_error(path: ReadableFile, kind: str) -> Iterator[None]:
    """Raise ``DataError`` for a file that Arrow cannot read."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, *MISFITS) as error:
        raise DataError(
            f"{path}: damaged or cut-off {kind} file ({error})\n  fix: download it again"
        ) from error


def _check_columns(path: ReadableFile, names: list[str], only: list[str] | None) -> None:
    if missing := [name for name in only or [] if name not in names]:
        raise DataError(missing_columns(str(path), missing, names))
    refuse_repeated_columns([n for n in names if not only or n in only], str(path))


def table_files(folder: Path) -> list[Path]:
    """Return the parquet or else the Arrow files in a folder. Raises ``DataError`` without any."""
    for suffix in (".parquet", ".arrow"):
        if files := sorted(folder.glob(f"*{suffix}")):
            return files
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
    raise DataError(f"{folder}: holds no parquet or Arrow file; found: {names}")


def class_names(path: Path) -> dict[str, Sequence[str]]:
    """Return the names of classes and of tags that ``datasets`` stores in parquet and Arrow, or in
    ``dataset_info.json`` beside other files, by column.
    """
    if path.is_dir() and path.suffix not in TABLES:
        path = table_files(path)[0]
    beside = path.parent / "dataset_info.json"
    if path.suffix in (".parquet", ".arrow"):
        import pyarrow.parquet as pq

        with _damage_as_data_error(path, path.suffix[1:]):
            schema = pq.read_schema(path) if path.suffix == ".parquet" else _open_arrow(path)[0]
            about = (schema.metadata or {}).get(b"huggingface", b"{}")
            features = json.loads(about).get("info", {}).get("features", {})
    elif beside.is_file():
        about = read_document(beside)
        features = about.get("features") if isinstance(about, dict) else None
    else:
        return {}
    names: dict[str, Sequence[str]] = {}
    for column, feature in (features or {}).items():
        of_list = feature.get("feature") if isinstance(feature, dict) else None
        for described in (feature, of_list):
            if isinstance(described, dict) and described.get("_type") == "ClassLabel":
                names[column] = described["names"]
    return names


def suffix_of(path: Path) -> str:
    """Return the suffix of a file without that of its compression."""
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def table_rows(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield ``file:line`` and the row by column names of a JSONL, JSON, CSV, TSV, parquet or Arrow
    file, or of all parquet or Arrow files in a folder.

    CSV and TSV have quoting; a row may span lines. A ``.csv`` whose header has semicolons or tabs
    instead of commas is read by those. JSON is an array of objects, or one object a line.
    """
    if path.is_dir() and path.suffix not in TABLES:
        for file in table_files(path):
            yield from table_rows(file)
        return
    match suffix_of(path):
        case ".jsonl":
            yield from _json_lines(path)
        case ".json":
            yield from _json_lines(path) if json_shape(path) == "lines" else _json_array(path)
        case ".csv":
            yield from _csv_rows(path, delimiter_of(path))
        case ".tsv":
            yield from _csv_rows(path, "\t")
        case ".parquet" | ".arrow" as suffix:
            read = parquet_rows if suffix == ".parquet" else arrow_rows
            for number, row in enumerate(read(path), 1):
                yield f"{path}:{number}", row
        case suffix:
            raise DataError(
                f"{path}: {suffix or 'no suffix'} is not a supported table\n"
                "  allowed: .jsonl, .json, .csv, .tsv (each also with .gz), .parquet and .arrow"
            )


def json_shape(path: Path) -> Literal["lines", "array", "document"]:
    """Return the shape of a JSON file: one object a line, one array, or one object in all."""
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    except (OSError, *DAMAGED):
        return "document"  # whose reader names the fault
    text = head.lstrip()
    if text.startswith("["):
        return "array"
    try:
        first, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # a longer object, or a fault that a reader names
        line, newline, rest = text.partition("\n")
        lines = bool(newline) and line.rstrip().endswith("}") and rest.lstrip().startswith("{")
        return "lines" if lines else "document"
    one_line = "\n" not in text[:end] and not (isinstance(first, dict) and "data" in first)
    lines = bool(text[end:].strip()) or one_line
    return "lines" if lines else "document"


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in numbered_lines(path):
        if line.strip():
            yield f"{path}:{number}", parse_json_line(line, f"{path}:{number}")


def _json_array(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the objects of an array, which may be the value of ``data``."""
    content = read_document(path)
    rows = content.get("data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise DataError(
            f"{path}: neither an array of objects nor one object a line\n"
            "  fix: write [{...}, {...}], or one JSON object a line"
        )
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"{path}: [{number}] is no JSON object; seen {shorten(repr(row))}")
        yield f"{path}: [{number}]", row


def delimiter_of(path: Path) -> str:
    """Return the delimiter of a ``.csv``: comma, semicolon or tab, whichever gives its first line
    the most columns.
    """
    first = next((line for _, line in numbered_lines(path)), "")

    def columns(delimiter: str) -> int:
        try:
            return len(next(csv.reader([first], delimiter=delimiter), []))
        except csv.Error:  # which the reader of the rows names
            return 0

    return max((",", ";", "\t"), key=columns)


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[str, dict[str, object]]]:
    lines = (line for _, line in numbered_lines(path, ends=True))  # a quoted cell may hold them
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    header: list[str] | None = None
    try:
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if header is None:
                refuse_repeated_columns(header := cells, where)
            elif cells:
                if len(cells) != len(header):
                    raise DataError(
                        f"{where}: {len(cells)} columns, expected {len(header)}\n"
                        f"  fix: quote cells that hold {delimiter!r}"
                    )
                yield where, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataError(
            f"{path}:{reader.line_num}: broken CSV: {error}\n"
            "  fix: close every quote, double quotes within a cell, and end lines with a newline"
        ) from error
