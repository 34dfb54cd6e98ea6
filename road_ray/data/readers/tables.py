"""Rows of tables by column names (CSV, TSV, JSONL, a JSON array, Parquet, Arrow, a folder, or of
the hub), and lines of text files, plain or compressed.

Every row comes with its place, ``file:line``, which is in every error. To read another format, add
it to ``table_rows``. The hub's copies differ from the published files in columns, which
``Hub.columns`` of the catalogue names, and in labels, which are numbers of classes.
"""

import csv
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from string import Formatter
from typing import IO, Any

from road_ray.data.task_and_dataset import Dataset, Hub
from road_ray.errors import ConfigError, DataError, ResourceError, nearest, shorten
from road_ray.system.files import UNREADABLE, ReadableFile, open_bytes

_BOM = b"\xef\xbb\xbf"
# Exceptions of a row that has another shape than its layout.
MISFITS = (KeyError, TypeError, AttributeError, ValueError, IndexError)


def numbered_lines(
    path: ReadableFile, *, ends: bool = False, file: IO[bytes] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines of a plain or compressed file, without BOM and, unless
    ``ends``, without line end; of an open ``file``, which ``path`` names, if there is one.

    Raises ``DataError`` with ``file:line`` for bytes that are not UTF-8 and damaged compression.
    """
    number = 0
    try:
        with open_bytes(path) if file is None else nullcontext(file) as lines:
            for number, raw in enumerate(lines, 1):
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                try:
                    text = raw.decode("utf-8")
                    seen = f"NUL at byte {raw.index(0) + 1}" if "\0" in text else ""
                except UnicodeDecodeError as error:
                    seen = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1}"
                if seen:
                    encoding = "utf-16" if b"\0" in raw else "latin1"
                    raise DataError(
                        f"{path}:{number}: not UTF-8: {seen}\n  fix: convert the file, for "
                        f"instance iconv -f {encoding} -t utf-8 OLD > NEW"
                    )
                yield number, text if ends else text.rstrip("\r\n")
    except UNREADABLE as error:
        where = f"{path}:{number + 1}"
        if getattr(error, "errno", None) is not None:
            remedy = "name a file that can be read"
            raise ResourceError(f"{where}: cannot be read: {error}\n  fix: {remedy}") from error
        raise DataError(
            f"{where}: the compressed file is damaged or cut short ({error})\n"
            "  fix: download the file again"
        ) from error


def parse_json_line(line: str, where: str) -> dict[str, object]:
    """Return the object on one line of JSONL. Raises ``DataError`` with line and column."""
    row = parse_json(line, where)
    if not isinstance(row, dict):
        raise DataError(f"{where}: a JSON object was expected, seen {shorten(line)!r}")
    return row


def read_document(path: Path) -> Any:
    """Return the content of a JSON file, plain or compressed; None if it has one object a line.
    Raises ``DataError`` with the line.
    """
    return parse_json("".join(line for _, line in numbered_lines(path, ends=True)), str(path))


def parse_json(text: str, where: str) -> Any:
    """Return what JSON the text is, None if more is behind it. Raises ``DataError``."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            return None
        raise DataError(
            f"{where}: broken JSON: {error}; seen {shorten(text)!r}\n"
            "  fix: write the file again as JSON; in a .jsonl file, one object a line"
        ) from error


NESTED = (".jsonl", ".json", ".parquet", ".arrow")  # cells may be lists
TABLES = (".csv", ".tsv", *NESTED)
Row = Mapping[Any, Any]  # by names of columns, or numbers in a file without a header
Rows = Iterable[tuple[str, Row]]  # each with its place
_LISTED = 5  # faults that a message shows
_HUB_SPLITS = {"dev": "validation"}
_SURROGATE = re.compile("[\ud800-\udfff]")
csv.field_size_limit(sys.maxsize)  # the module's own limit of 131,072 characters is too low


def named_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file or folder, with names of tags that are numbers."""
    return with_class_names(table_rows(path), class_names(path))


def with_class_names(
    rows: Iterable[tuple[str, Row]],
    names: Mapping[str, Sequence[str]],
    numbers: Collection[str] | None = None,
) -> Iterator[tuple[str, Row]]:
    """Yield rows with the names of classes: of lists of them, which are tags, and of single ones
    but for ``numbers``, None for all. A single class below 0 is None, as it hides a label.
    """
    for where, row in rows:
        named: dict[str, Any] = {}
        for column in names.keys() & row.keys():
            cell, known = row[column], names[column]
            if isinstance(cell, list):
                named[column] = [known[tag] if isinstance(tag, int) else tag for tag in cell]
            elif isinstance(cell, int):
                is_number = numbers is None or str(cell) in numbers
                named[column] = None if cell < 0 else cell if is_number else known[cell]
        yield where, {**row, **named} if named else row


def table_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``file:line`` and the row by column names of a JSONL, JSON, CSV, TSV, Parquet or Arrow
    file, or of all Parquet or Arrow files in a folder.

    CSV and TSV have quoting, and a row may span lines, but for tab-separated lines whose quotes are
    letters, as in GLUE's files. A ``.csv`` whose header has semicolons or tabs instead of commas is
    read by those. JSON is an array of objects, or one object a line.
    """
    if path.is_dir() and path.suffix not in TABLES:
        for file in table_files(path):
            yield from table_rows(file)
        return
    suffix = suffix_of(path)
    content = read_document(path) if suffix == ".json" else None
    if suffix == ".jsonl" or (suffix == ".json" and content is None):
        for number, line in numbered_lines(path):
            if line.strip():
                yield f"{path}:{number}", parse_json_line(line, f"{path}:{number}")
    elif suffix == ".json":  # an array, which may be the value of ``data``
        rows = content.get("data", [content]) if isinstance(content, dict) else content
        for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
            if not isinstance(row, dict):
                raise DataError(
                    f"{path}: [{number}] is no JSON object; seen {shorten(repr(row))}\n"
                    "  fix: write [{...}, {...}], or one JSON object a line"
                )
            yield f"{path}: [{number}]", row
    elif suffix in (".csv", ".tsv"):
        yield from _csv_rows(path)
    elif suffix in (".parquet", ".arrow"):
        for number, row in enumerate(arrow_rows(path), 1):
            yield f"{path}:{number}", row
    else:
        raise DataError(
            f"{path}: {suffix or 'no suffix'} is not a supported table\n"
            "  allowed: .jsonl, .json, .csv, .tsv (each also with .gz), .parquet and .arrow; .txt "
            "for words with tags (CoNLL) and for pre-training"
        )


def arrow_rows(path: ReadableFile, only: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet or Arrow file, a batch in memory at a time; ``only`` selects
    columns.
    """
    import pyarrow as pa

    try:
        schema, batches = _open_arrow(path, only)
        if missing := [name for name in only or [] if name not in schema.names]:
            raise DataError(missing_columns(str(path), missing, schema.names))
        refuse_repeated_columns([n for n in schema.names if not only or n in only], str(path))
        for batch in batches:
            # Arrow follows offsets as they are; damaged ones lead out of the file, and a read of
            # memory that is not there ends the process.
            batch.validate(full=True)
            yield from (batch.select(only) if only else batch).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _open_arrow(path: ReadableFile, only: list[str] | None = None) -> tuple[Any, Iterable[Any]]:
    """Return schema and batches of a Parquet file, an Arrow stream or an Arrow file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    local = isinstance(path, Path)
    if path.name.endswith(".parquet"):
        # Columns are read in pieces, so a row group of gigabytes is not in memory as a whole.
        parquet = pq.ParquetFile(path if local else path.open("rb"), buffer_size=4 << 20)
        return parquet.schema_arrow, parquet.iter_batches(batch_size=256, columns=only)
    source = pa.memory_map(str(path)) if local else pa.PythonFile(path.open("rb"), "r")
    try:
        stream = pa.ipc.open_stream(source)
        return stream.schema, stream
    except pa.ArrowInvalid:
        file = pa.ipc.open_file(source)
        return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))


def _damaged(path: ReadableFile, error: Exception) -> DataError:
    kind = path.name.rpartition(".")[2]
    return DataError(f"{path}: damaged or cut-off {kind} file ({error})\n  fix: download it again")


def table_files(folder: Path) -> list[Path]:
    """Return the Parquet or else the Arrow files in a folder. Raises ``DataError`` without any."""
    for suffix in (".parquet", ".arrow"):
        if files := sorted(folder.glob(f"*{suffix}")):
            return files
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
    raise DataError(f"{folder}: holds no parquet or Arrow file; found: {names}")


def class_names(path: Path) -> dict[str, Sequence[str]]:
    """Return the names of classes and of tags that ``datasets`` stores in Parquet and Arrow, or in
    ``dataset_info.json`` beside other files, by column.
    """
    if path.is_dir() and path.suffix not in TABLES:
        path = table_files(path)[0]
    in_file = path.suffix in (".parquet", ".arrow")
    if not in_file and not (path.parent / "dataset_info.json").is_file():
        return {}
    import datasets

    if not in_file:
        return names_of_features(datasets.DatasetInfo.from_directory(str(path.parent)).features)
    try:
        return names_of_features(datasets.Features.from_arrow_schema(_open_arrow(path)[0]))
    except (OSError, ValueError) as error:  # those of Arrow are among them
        raise _damaged(path, error) from error


def names_of_features(features: Mapping[str, Any] | None) -> dict[str, Sequence[str]]:
    """Return the names of classes, also of lists of them (tags), in ``datasets.Features``."""
    inner = {name: getattr(f, "feature", f) for name, f in (features or {}).items()}
    return {name: feature.names for name, feature in inner.items() if hasattr(feature, "names")}


def suffix_of(path: Path) -> str:
    """Return the suffix of a file in lower case, without that of its compression."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    delimiter = "\t"
    if suffix_of(path) == ".csv":
        # Whichever gives the header and the first row as many columns, else the header the most.
        lines = [line.partition("\r")[0] for _, line in islice(numbered_lines(path), 2)] or [""]
        counts = {m: [*map(len, csv.reader(lines, delimiter=m))] for m in ",;\t"}
        delimiter = max(counts, key=lambda m: (1 < counts[m][0] == counts[m][-1], counts[m][0]))
        if re.fullmatch("sep=.", lines[0]):  # Excel's
            delimiter = lines[0][-1]
    text = (line for _, line in numbered_lines(path, ends=True))  # a quoted cell may hold line ends
    # No quote character reads quotes as letters.
    mark = None if delimiter == "\t" and _quotes_are_letters(path) else '"'
    reader = csv.reader(text, strict=True, delimiter=delimiter, quotechar=mark)
    header: list[str] = []
    try:
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if not header and delimiter.join(cells) == f"sep={delimiter}":
                continue
            if not header:
                refuse_repeated_columns(header := cells, where)
            elif len(cells) == len(header):
                yield where, dict(zip(header, cells, strict=True))
            elif cells:
                raise DataError(
                    f"{where}: {len(cells)} columns, expected {len(header)}\n"
                    f"  fix: quote cells that hold {delimiter!r}"
                )
    except csv.Error as error:
        raise DataError(
            f"{path}:{reader.line_num}: broken CSV: {error}\n"
            "  fix: close every quote, double quotes within a cell, and end lines with a newline"
        ) from error


def _quotes_are_letters(path: Path) -> bool:
    """Return True if every line has the tabs of the first, and with quoting a cell would be broken
    or go on behind a tab or on the next line. A text of the only column may go on there.
    """
    counts = {line.count("\t") for _, line in numbered_lines(path) if line}
    if len(counts) != 1:
        return False
    lines = (line for _, line in numbered_lines(path, ends=True))
    try:
        cells = chain.from_iterable(csv.reader(lines, strict=True, delimiter="\t"))
        return any("\t" in cell or "\n" in cell for cell in cells) and counts != {0}
    except csv.Error:
        return True


def hub_rows(dataset: Dataset, split: str) -> Iterator[tuple[str, Row]]:
    """Return the rows of a split of the Hugging Face hub or its local cache, with names of classes,
    but for numbers that are labels of the files.
    """
    hub = dataset.hub
    if hub is None:
        raise ConfigError(
            f"data set {dataset.name!r} is not on the hub\n"
            f"  fix: set `data.root` (or ROAD_DATA) to a directory with {dataset.folder}/"
        )
    part = hub.splits.get(split, _HUB_SPLITS.get(split, split))
    with asking_hub(f"data set {dataset.name!r}: {hub.path} ({hub.configuration}) split {part!r}"):
        rows = load_rows(hub, part)
        if hub.only is not None:
            column, subset = hub.only
            rows = rows.filter(lambda value: value == subset, input_columns=column)
    mapped = {value for value, label in dataset.label_map.items() if value != label}
    return placed_rows(rows, f"hf://{hub.path}/{part}", mapped)


@contextmanager
def asking_hub(place: str) -> Iterator[None]:
    """Raise ``DataError`` for what ``datasets`` raises, of many types, when it is offline, or the
    data set gated or renamed.
    """
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{place} could not be loaded from the hub: {type(error).__name__}: {error}\n"
            "  fix: check the network, and name, configuration, revision and split; for a data set "
            "of the catalogue, data.root (or ROAD_DATA) may be a directory with its files"
        ) from error


def placed_rows(rows: Any, name: str, numbers: Collection[str] = ()) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a ``datasets.Dataset``, each with its place, and with the names of classes
    but for ``numbers``.
    """
    placed = ((f"{name}:{number}", row) for number, row in enumerate(rows, 1))
    return with_class_names(placed, names_of_features(rows.features), numbers)


def load_rows(hub: Hub, split: str, *, streaming: bool = False) -> Any:
    """Return a split of a data set of the hub, or of a folder in its layout. Cells of CSV files
    such as ``null``, ``NA`` and ``nan`` are words.
    """
    datasets, place = datasets_library(), (hub.path, hub.configuration)
    builder = datasets.load_dataset_builder(*place, revision=hub.revision)
    is_csv = hasattr(builder.config, "keep_default_na")
    options = {"keep_default_na": False, "na_values": [""]} if is_csv else {}
    options |= {"split": split, "streaming": streaming}
    return datasets.load_dataset(*place, revision=hub.revision, **options)


def datasets_library() -> Any:
    """Return `datasets` without its own log handler: its records also reach the root's handlers and
    would be printed twice.
    """
    import datasets

    logging.getLogger(datasets.__name__).handlers.clear()
    return datasets


def refuse_repeated_columns(names: Sequence[str], where: str) -> None:
    """Raise ``DataError`` for a header that repeats a column, of which a row would keep one."""
    if twice := [name for name, count in Counter(names).items() if count > 1 and name]:
        raise DataError(
            f"{where}: the header names {', '.join(map(repr, twice))} twice; "
            f"columns: {shorten(', '.join(names), 200)}\n"
            "  fix: rename or remove the copies"
        )


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


def value_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, within its cell (``question[stem]``), or of two (``a+b``)."""
    if name in row or not {"[", "+"} & {*name}:
        return row[name]
    values = [Formatter().get_field(part, (), row)[0] for part in name.split("+")]
    return " ".join(values).strip() if len(values) > 1 else values[0]


def check_text(text: object, where: str, column: str | int) -> str:
    """Return ``text``. Raises ``DataError`` unless it is a string that UTF-8 can encode."""
    if not isinstance(text, str):
        raise DataError(
            f"{where}: column {column!r} must be text, seen {shorten(repr(text))}\n"
            "  fix: fill the cell, or remove the row"
        )
    if not text.isascii() and (half := _SURROGATE.search(text)):
        raise DataError(
            f"{where}: column {column!r} holds a lone surrogate U+{ord(half[0]):04X} at character "
            f"{half.start()}\n  fix: write the file again as UTF-8"
        )
    return text


def first_faults(lines: Sequence[str]) -> str:
    """Return the first five faults, one a line, and the number of the others."""
    num_others = len(lines) - _LISTED
    return "\n  ".join([*lines[:_LISTED], *([f"and {num_others} more"] if num_others > 0 else [])])
