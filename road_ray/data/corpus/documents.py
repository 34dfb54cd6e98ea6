"""Reader of a raw text corpus, one string a document.

Layout: parquet, Arrow (``Dataset.save_to_disk``), JSONL or plain text; the last two may be
compressed. Column: ``text``. Files lie in a directory or at an address, such as an object store.
"""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import TypeAlias

from road_ray.data.readers.tables import arrow_rows, check_text, numbered_lines, parse_json_line
from road_ray.errors import DataError, counted, shorten
from road_ray.system.files import SUFFIXES, nearest_path
from road_ray.system.remote_files import Storage, StoredFile, is_address

_log = logging.getLogger(__name__)
TextFile: TypeAlias = Path | StoredFile
TextPlace: TypeAlias = Path | str | tuple[str, ...]
"""A file or directory, an address, or addresses and paths of all files."""
TEXT_SUFFIXES = (
    *(".parquet", ".arrow", ".jsonl", ".txt"),
    *(kind + packed for kind in (".jsonl", ".txt") for packed in SUFFIXES),
)
_NOT_TEXT = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow")
_OF_DATASETS = ("dataset_info.json", "state.json", "dataset_dict.json")  # beside its Arrow files
_LONGEST_DOCUMENT = 4 << 20  # characters of plain text; a longer document is split
_LISTED_AT_ONCE = 16
_PART_BYTES = 64 << 20  # the rows of a corpus depend on it


def _documents_of(listed: Sequence[tuple[TextFile, object]]) -> Iterator[str]:
    """Yield the documents of files. Raises ``DataError`` for one whose state is another than when
    it was listed.
    """
    for file, state in listed:
        yield from filter(str.strip, _documents(file))
        if _state(file, now=True) != state:
            raise DataError(
                f"{file}: changed while it was read\n"
                "  fix: write text once, then read it; give what is still written another name"
            )


def _state(file: TextFile, *, now: bool = False) -> object:
    """Return a value that changes when the file is written again; in an object store that of the
    listing, or of ``now``.
    """
    if isinstance(file, Path):
        return file.stat().st_size, file.stat().st_mtime_ns
    found = file.storage.find(file.path) if now else file
    # Object stores list fractions of a second that a look-up does not show.
    return found and (found.size, found.modified_ns // 10**9)


@dataclass(frozen=True)
class Documents:
    """Documents of a file, or of all files below a directory or address in order of their names,
    read again in every iteration.

    Parquet and JSONL hold a document in the column ``text``; in plain text a blank line separates
    documents. Empty documents are skipped. Raises ``DataError`` if a file cannot be read or there
    are no documents.
    """

    place: TextPlace

    def __iter__(self) -> Iterator[str]:
        count = 0
        for document in chain.from_iterable(parts_of(text_files(self.place))):
            count += 1
            yield document
        if not count:
            place = shown(self.place)
            raise DataError(f"{place}: 0 documents\n  fix: point `corpus` at a file with text")


def parts_of(files: Sequence[TextFile]) -> list[Iterator[str]]:
    """Return the documents of parts of at least 64 MiB of consecutive files each, which depend on
    names and sizes only.
    """
    groups: list[list[TextFile]] = [[]]
    size = 0
    for file in files:
        groups[-1].append(file)
        size += size_of_file(file)
        if size >= _PART_BYTES:
            groups.append([])
            size = 0
    return [_documents_of([(file, _state(file)) for file in group]) for group in groups if group]


def text_files(place: TextPlace) -> list[TextFile]:
    """Return the files of a corpus in order of their names. Raises ``DataError`` without any."""
    if isinstance(place, tuple):
        with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:
            return [file for files in pool.map(text_files, place) for file in files]
    if isinstance(place, str) and is_address(place):
        storage = Storage(place)
        return _with_text(str(storage), storage.list_files())
    place = Path(place)
    if place.is_file():
        kinds = {suffix.lower() for suffix in place.suffixes[-2:]}
        if not place.name.endswith(TEXT_SUFFIXES) and kinds & {*_NOT_TEXT}:
            raise DataError(
                f"{place}: its lines would be read as text, with separators and quotes\n"
                f"  allowed: {', '.join(TEXT_SUFFIXES)}\n"
                "  fix: write the column with the text as `text` of a .jsonl or .parquet file"
            )
        return [place]
    if not place.is_dir():
        raise DataError(
            f"{place}: no such file or directory{nearest_path(place)}\n"
            "  fix: check the path; data.corpus is relative to data.root"
        )
    return _with_text(str(place), sorted(f for f in place.rglob("*") if f.is_file()))


def _with_text(place: str, candidates: Sequence[TextFile]) -> list[TextFile]:
    files = [file for file in candidates if file.name.endswith(TEXT_SUFFIXES)]
    known = (*TEXT_SUFFIXES, *_OF_DATASETS)
    others = [f.name for f in candidates if f.name[0] != "." and not f.name.endswith(known)]
    names = shorten(", ".join(others), 200) or "nothing"
    if files:
        if others:
            what, allowed = counted(len(others), "file"), ", ".join(TEXT_SUFFIXES)
            _log.warning("%s: %s not read: %s\n  allowed: %s", place, what, names, allowed)
        return files
    raise DataError(
        f"{place}: no corpus file below it; found {names}; wanted {', '.join(TEXT_SUFFIXES)}"
    )


def shown(place: TextPlace) -> str:
    """Return a place for messages, without the settings of an address."""
    first = place[0] if isinstance(place, tuple) else place
    return str(first).partition("?")[0]


def size_of_file(file: TextFile) -> int:
    """Return the bytes of a file on disk, compressed or not."""
    return file.stat().st_size if isinstance(file, Path) else file.size


def _documents(path: TextFile) -> Iterator[str]:
    if path.name.endswith((".parquet", ".arrow")):
        for number, row in enumerate(arrow_rows(path, ["text"]), 1):
            yield check_text(row["text"], f"{path}:{number}", "text")
        return
    if ".jsonl" in PurePath(path.name).suffixes[-2:]:
        for number, line in numbered_lines(path):
            if line.strip():
                where = f"{path}:{number}"
                yield check_text(parse_json_line(line, where).get("text"), where, "text")
        return
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
