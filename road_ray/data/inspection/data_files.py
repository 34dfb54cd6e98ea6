"""Files of a data set by split, their layout, and the rows in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from road_ray.data.corpus.documents import read_corpus
from road_ray.data.features.examples_and_features import SpanExample, TagExample
from road_ray.data.readers.conll import TAG, cells_of, conll_table, tagged_sentences
from road_ray.data.readers.hub import datasets_library, load_rows
from road_ray.data.readers.squad import questions, squad_table
from road_ray.data.readers.tables import (
    TABLES,
    class_names,
    delimiter_of,
    json_shape,
    suffix_of,
    table_rows,
)
from road_ray.data.readers.text_files import numbered_lines, read_document
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import ConfigError, DataError
from road_ray.system.compression import SUFFIXES
from road_ray.system.paths import nearest_path

MOST_ROWS = 100_000  # of a split that are inspected
HUB = "hub:"
_CONLL = (".conll", ".iob", ".iob2", ".bio", ".txt", ".tsv", "")
_TEXT = (".txt", *(f".txt{packed}" for packed in SUFFIXES))
_SNIFFED_LINES = 200
MOST_CHARACTERS = 200_000_000  # of text for pre-training that are read
_OF_ARROW = ("dataset_info.json", "state.json")  # beside the files of Dataset.save_to_disk
_SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval", "testa"),
    "test": ("test", "testb"),
}
_SPLIT_OF = {word: split for split, words in _SPLITS.items() for word in words}
_WORDS = re.compile(rf"(?<![a-z])({'|'.join(sorted(_SPLIT_OF, key=len, reverse=True))})(?![a-z])")

Layout = Literal["table", "squad_json", "conll", "text"]
Row = tuple[str, Mapping[str, Any]]
Rows = Sequence[Row] | Sequence[SpanExample] | Sequence[TagExample]


@dataclass(frozen=True)
class Source:
    """Location of the splits of a data set. ``class_names`` has the names of classes that are
    numbers in the file, by column; ``num_characters`` is the size of a text for pre-training, None
    where it is not known.
    """

    name: str
    layout: Layout
    splits: Mapping[str, str]
    hub: tuple[str, str | None] | None = None
    notes: Sequence[str] = ()
    rows: Mapping[str, Rows] = field(default_factory=dict)
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    num_characters: int | None = None


def find_source(place: str) -> Source:
    """Return the data set in a file, a folder or on the hub (``hub:NAME`` or
    ``hub:NAME:CONFIGURATION``), with its rows.

    Raises ``ConfigError`` for a place without data, ``DataError`` for data that cannot be read.
    """
    if place.startswith(HUB):
        return _hub_source(place.removeprefix(HUB))
    path = Path(place).expanduser()
    if not path.exists():
        like_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", place)
        hub = f", or name a data set of the hub by {HUB}{place}" if like_hub else ""
        raise ConfigError(
            f"{place}: no such file or directory{nearest_path(path)}\n  fix: check the path{hub}"
        )
    source = _folder(path) if path.is_dir() else _file(path)
    if source.layout == "text":
        return replace(source, num_characters=count_characters(source.splits["train"]))
    if source.hub:
        return source
    read = {name: _read(source.layout, Path(file), name) for name, file in source.splits.items()}
    return replace(source, rows=read, class_names=class_names(Path(source.splits["train"])))


def count_characters(place: str) -> int:
    """Return the number of characters of a text for pre-training, at least ``MOST_CHARACTERS`` for
    a longer one. Raises ``DataError`` for one without words, or that cannot be read.
    """
    count = 0
    for document in read_corpus(place):
        count += len(document)
        if count >= MOST_CHARACTERS:
            break
    return count


def layout_of(path: Path) -> Layout:
    """Return the layout of a file. Raises ``ConfigError`` for one of another format."""
    suffix = suffix_of(path)
    misfit = _conll_misfit(path) if suffix in _CONLL else ""
    if misfit is None:
        return "conll"
    if suffix == ".json" and json_shape(path) == "document":
        data = read_document(path)
        articles: Any = data.get("data") if isinstance(data, dict) else None
        first = articles[0] if isinstance(articles, list) and articles else None
        return "squad_json" if isinstance(first, dict) and "paragraphs" in first else "table"
    if suffix in TABLES:
        return "table"
    if path.name.endswith(_TEXT):
        return "text"
    if suffix in _CONLL and suffix:
        raise DataError(
            f"{misfit}\n  allowed: WORD TAG with tags such as O, B-PER and I-PER, an empty line "
            "between sentences\n  fix: correct the line"
        )
    raise ConfigError(
        f"{path}: {suffix or 'no suffix'} is not read\n"
        f"  allowed: {', '.join(TABLES)} (SQuAD's JSON too), text of words and tags in columns "
        "(CoNLL), .txt for pre-training, or a folder of them"
    )


def split_in_name(name: str) -> str | None:
    """Return the split that a file name contains: ``dev`` for ``reviews_valid.csv``."""
    match = _WORDS.search(name.lower())
    return _SPLIT_OF[match[0]] if match else None


def _rest(name: str) -> str:
    """Return a file name without the word of its split."""
    return _WORDS.sub("*", name.lower(), count=1)


def _name_of(path: Path) -> str:
    """Return a file's name without split and suffix; with its folder's name if only a version
    remains.
    """
    stem = path.name.removesuffix(".gz").removesuffix(suffix_of(path))
    rest = _WORDS.sub("", stem.lower(), count=1).strip("-_. ") if split_in_name(stem) else stem
    folder = path.resolve().parent.name
    return rest if not re.fullmatch(r"(v?[\d.]+)?", rest) else f"{folder}_{rest}".strip("_")


def _file(path: Path) -> Source:
    if not path.stat().st_size:
        raise DataError(f"{path}: the file is empty\n  fix: name a file with rows")
    layout = layout_of(path)
    name = _name_of(path)
    if layout == "text":
        return Source(name, layout, {"train": str(path)})
    splits = {"train": str(path)}
    notes = []
    if suffix_of(path) == ".csv" and (delimiter := delimiter_of(path)) != ",":
        notes.append(f"columns are separated by {delimiter!r}, as in the first line")
    if split_in_name(path.name) == "train":
        for other in sorted(path.parent.iterdir()):
            split = split_in_name(other.name)
            if split not in (None, "train") and _rest(other.name) == _rest(path.name):
                splits.setdefault(str(split), str(other))
    return Source(name, layout, splits, notes=notes)


def _folder(path: Path) -> Source:
    name = path.resolve().name
    if (path / "dataset_dict.json").is_file():  # DatasetDict.save_to_disk
        names = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        splits = {_SPLIT_OF.get(split, split): str(path / split) for split in names}
        return Source(name, "table", {s: w for s, w in splits.items() if s in _SPLITS})
    files = sorted(f for f in path.iterdir() if f.is_file() and not f.name.startswith((".", "_")))
    by_split: dict[str, list[Path]] = {}
    for file in files:
        if (split := split_in_name(file.name)) is not None:
            by_split.setdefault(split, []).append(file)
    parquet = [file for file in files if file.suffix == ".parquet"]
    if parquet and any(len(group) > 1 for group in by_split.values()):
        return _hub_source(str(path.resolve()))  # several parquet files a split, as on the hub
    if by_split.get("train") and layout_of(by_split["train"][0]) != "text":
        splits = {split: str(group[0]) for split, group in by_split.items()}
        left_out = [str(f.name) for group in by_split.values() for f in group[1:]]
        notes = [f"not used: {', '.join(left_out)}"] if left_out else []
        return Source(name, layout_of(by_split["train"][0]), splits, notes=notes)
    tables = [file for file in files if suffix_of(file) in TABLES and file.name not in _OF_ARROW]
    if len(tables) == 1:
        return _file(tables[0])
    if tables and (tables == parquet or any(f.suffix == ".arrow" for f in tables)):
        return Source(name, "table", {"train": str(path)})
    if tables:
        raise ConfigError(
            f"{path}: {len(tables)} tables, and no name says which is for training: "
            f"{', '.join(file.name for file in tables[:8])}\n"
            "  fix: name one of them, or call them train, dev and test"
        )
    texts = [file for file in path.rglob("*") if file.name.endswith(_TEXT)]
    if texts:
        inner = any(file.parent != path for file in texts)
        notes = ["names of sub-folders are not read as labels"] if inner else []
        return Source(name, "text", {"train": str(path)}, notes=notes)
    if (path / "data").is_dir():
        return _folder(path / "data")
    folders = [f"{entry.name}/" for entry in sorted(path.iterdir()) if entry.is_dir()]
    listed = ", ".join([*(file.name for file in files), *folders][:12]) or "nothing"
    what = "the file of the data" if files or not folders else "the folder of one data set"
    raise ConfigError(f"{path}: no data in it; found: {listed}\n  fix: name {what}")


def _read(layout: Layout, path: Path, split: str) -> Rows:
    if layout == "squad_json":
        return list(questions(squad_table(path, Columns(()))))
    if layout == "conll":
        labelled = split != "test"
        return tagged_sentences(conll_table(path, Columns((0,), -1), labelled), labelled)
    rows = list(islice(table_rows(path), MOST_ROWS))
    if not rows:
        raise DataError(f"{path}: has no rows\n  fix: name a file with a row below its header")
    return rows


def _conll_misfit(path: Path) -> str | None:
    """Return None if the lines are words with columns, of which the last is a tag; else say which
    line is not.
    """
    seen = 0
    for number, line in islice(numbered_lines(path), _SNIFFED_LINES):
        cells = cells_of(line)
        if not cells or cells[0] == "-DOCSTART-":
            continue
        if len(cells) < 2 or not TAG.fullmatch(cells[-1]):
            return f"{path}:{number}: {line.strip()[:80]!r} is no word with a tag"
        seen += 1
    return None if seen else f"{path}: has no line with a word"


def _hub_source(place: str) -> Source:
    datasets = datasets_library()
    path, _, configuration = (place, "", "") if Path(place).is_dir() else place.partition(":")
    chosen = configuration or None
    try:
        names = [str(name) for name in datasets.get_dataset_split_names(path, chosen)]
        splits = {_SPLIT_OF[name]: name for name in reversed(names) if name in _SPLIT_OF}
        splits = {split: splits[split] for split in _SPLITS if split in splits}
        if "train" not in splits:
            raise DataError(f"hub:{path}: no split `train`; it has: {', '.join(names)}")
        loaded = {
            split: load_rows(path, chosen, name, streaming=True) for split, name in splits.items()
        }
        features = loaded["train"].features or {}
        of_lists = {n: getattr(f, "feature", f) for n, f in features.items()}
        names_of = {n: f.names for n, f in of_lists.items() if getattr(f, "names", None)}
        rows = {
            split: _with_class_names(islice(part, MOST_ROWS), names_of, f"hf://{path}/{split}")
            for split, part in loaded.items()
        }
    except DataError:
        raise
    except Exception as error:  # datasets raises many types when offline, gated or renamed
        lines = str(error).strip().splitlines()
        raise DataError(
            f"hub:{place}: cannot be loaded: {type(error).__name__}: {lines[0] if lines else ''}\n"
            "  fix: check the name and the network; several configurations: hub:NAME:CONFIGURATION"
        ) from error
    name = Path(path).name if Path(path).is_dir() else path.rpartition("/")[2]
    return Source(name, "table", splits, hub=(path, chosen), rows=rows, class_names=names_of)


def _with_class_names(
    rows: Iterable[Mapping[str, Any]], names: Mapping[str, Sequence[str]], where: str
) -> list[Row]:
    """Return rows with the names of classes instead of their numbers; None for a hidden one."""
    made: list[Row] = []
    for number, row in enumerate(rows, 1):
        changed = dict(row)
        for column in names.keys() & row.keys():
            value = row[column]
            if not isinstance(value, list):  # else tags, whose reader names them
                changed[column] = None if value is None or value < 0 else names[column][value]
        made.append((f"{where}:{number}", changed))
    return made
