"""Files of a data set by split, their layout, and the rows in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from road_ray.data.readers.conll import TAG, cells_of, conll_rows
from road_ray.data.readers.hub import datasets_library, load_rows
from road_ray.data.readers.squad import squad_rows
from road_ray.data.readers.tables import (
    TABLES,
    Row,
    class_names,
    names_of_features,
    numbered_lines,
    suffix_of,
    with_class_names,
)
from road_ray.data.task_and_dataset import Columns, Hub
from road_ray.errors import ConfigError, DataError
from road_ray.system.files import SUFFIXES, nearest_path

MOST_ROWS = 100_000  # of a split that are inspected
HUB = "hub:"
_CONLL = (".conll", ".iob", ".iob2", ".bio")
_TEXT = (".txt", *(f".txt{packed}" for packed in SUFFIXES))
_SNIFFED_LINES = 200
_SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval", "testa"),
    "test": ("test", "testb"),
}
_SPLIT_OF = {word: split for split, words in _SPLITS.items() for word in words}
_WORDS = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(_SPLIT_OF, key=len, reverse=True))})(?![a-z])", re.IGNORECASE
)

Layout = Literal["table", "conll", "text"]
Rows = Sequence[tuple[str, Row]]


@dataclass(frozen=True)
class Source:
    """Splits of a data set, which are paths, or splits of the data set ``hub``, with their rows.

    ``class_names`` has the names of classes that are numbers in the file, by column; the rows have
    the names.
    """

    name: str
    layout: Layout
    splits: Mapping[str, str]
    hub: tuple[str, str | None] | None = None
    rows: Mapping[str, Rows] = field(default_factory=dict)
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def find_source(place: str) -> Source:
    """Return the data set in a file, a folder or on the hub (``hub:NAME`` or
    ``hub:NAME:CONFIGURATION``), with its rows.

    Raises ``ConfigError`` for a place without data, ``DataError`` for data that cannot be read.
    """
    if place.startswith(HUB):
        return _hub_source(place.removeprefix(HUB))
    path = Path(place).expanduser()
    if not path.exists():
        raise ConfigError(
            f"{place}: no such file or directory{nearest_path(path)}\n"
            f"  fix: check the path, or name a data set of the hub by {HUB}ORGANISATION/NAME"
        )
    source = _folder(path) if path.is_dir() else _file(path)
    if source.layout == "text" or source.hub:
        return source
    read = {name: _read(source.layout, Path(file), name) for name, file in source.splits.items()}
    return replace(source, rows=read, class_names=class_names(Path(source.splits["train"])))


def layout_of(path: Path) -> Layout:
    """Return the layout of a file. Raises ``ConfigError`` for one of another format."""
    suffix = suffix_of(path)
    if suffix in _CONLL or (suffix in (".txt", ".tsv", "") and _is_tagged(path)):
        return "conll"
    if suffix in TABLES:
        return "table"
    if path.name.endswith(_TEXT):
        return "text"
    raise ConfigError(
        f"{path}: {suffix or 'no suffix'} is not read\n"
        f"  allowed: {', '.join(TABLES)} (SQuAD's JSON too), text of words and tags in columns "
        "(CoNLL), .txt for pre-training, or a folder of them"
    )


def _is_tagged(path: Path) -> bool:
    """Return True if the first lines are words with columns, of which the last is a tag."""
    lines = (cells_of(line) for _, line in islice(numbered_lines(path), _SNIFFED_LINES))
    words = [cells for cells in lines if cells and cells[0] != "-DOCSTART-"]
    return bool(words) and all(len(cells) > 1 and TAG.fullmatch(cells[-1]) for cells in words)


def split_in_name(name: str) -> str | None:
    """Return the split that a file name contains: ``dev`` for ``reviews_valid.csv``."""
    match = _WORDS.search(name)
    return _SPLIT_OF[match[0].lower()] if match else None


def _file(path: Path) -> Source:
    """Return the data set of a file; those beside a training file are its other splits."""
    layout, files = layout_of(path), {"train": path}
    if layout != "text" and split_in_name(path.name) == "train":
        pattern = _WORDS.sub("*", path.name, count=1)
        beside = (f for f in path.parent.iterdir() if _WORDS.sub("*", f.name, count=1) == pattern)
        files = {split: group[0] for split, group in _by_split(beside).items()} | files
    stem = path.name.removesuffix(".gz").removesuffix(suffix_of(path))
    name = _WORDS.sub("", stem, count=1).strip("-_. ") or path.resolve().parent.name
    return Source(name, layout, {split: str(file) for split, file in files.items()})


def _folder(path: Path) -> Source:
    name = path.resolve().name
    if (path / "dataset_dict.json").is_file():  # DatasetDict.save_to_disk
        names = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        saved = _by_split(path / split for split in names)
        return Source(name, "table", {split: str(group[0]) for split, group in saved.items()})
    files = sorted(f for f in path.iterdir() if f.is_file() and not f.name.startswith((".", "_")))
    by_split = _by_split(files)
    if any(len(group) > 1 and group[0].suffix == ".parquet" for group in by_split.values()):
        return _hub_source(str(path.resolve()))  # several parquet files a split, as on the hub
    if "train" in by_split and (layout := layout_of(by_split["train"][0])) != "text":
        return Source(name, layout, {split: str(group[0]) for split, group in by_split.items()})
    if {file.suffix for file in files} & {".parquet", ".arrow"}:
        return Source(name, "table", {"train": str(path)})
    tables = [file for file in files if suffix_of(file) in TABLES]
    if len(tables) == 1:
        return _file(tables[0])
    if not tables and any(file.name.endswith(_TEXT) for file in path.rglob("*")):
        return Source(name, "text", {"train": str(path)})
    listed = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) or "nothing"
    what = f"{len(tables)} tables, and no name says which is for training" if tables else "no data"
    raise ConfigError(
        f"{path}: {what}; found: {listed}\n"
        "  fix: name the file or the folder of one data set, or call its files train, dev and test"
    )


def _by_split(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Return files, or names of splits, by ``train``, ``dev`` and ``test``."""
    by_split: dict[str, list[Path]] = {split: [] for split in _SPLITS}
    for file in sorted(files):
        if (split := split_in_name(file.name)) is not None:
            by_split[split].append(file)
    return {split: group for split, group in by_split.items() if group}


def _read(layout: Layout, path: Path, split: str) -> Rows:
    if layout == "conll":
        read = conll_rows(path, Columns((0,), -1), split != "test")
    else:  # those of SQuAD's JSON are flat rows
        read = with_class_names(squad_rows(path), class_names(path), ())
    return list(islice(read, MOST_ROWS))


def _hub_source(place: str) -> Source:
    path, _, configuration = (place, "", "") if Path(place).is_dir() else place.partition(":")
    chosen = configuration or None
    rows = {}
    try:
        names = datasets_library().get_dataset_split_names(path, chosen)
        splits = {split: str(group[0]) for split, group in _by_split(map(Path, names)).items()}
        for split, name in splits.items():
            part = load_rows(Hub(path, chosen), name, streaming=True)
            placed = ((f"hf://{path}/{split}:{n}", row) for n, row in enumerate(part, 1))
            of_classes = names_of_features(part.features)
            rows[split] = [*islice(with_class_names(placed, of_classes, ()), MOST_ROWS)]
    except Exception as error:  # datasets raises many types when offline, gated or renamed
        lines = str(error).strip().splitlines()
        raise DataError(
            f"hub:{place}: cannot be loaded: {type(error).__name__}: {lines[0] if lines else ''}\n"
            "  fix: check the name and the network; several configurations: hub:NAME:CONFIGURATION"
        ) from error
    if "train" not in splits:
        raise DataError(f"hub:{place}: no split `train`; found: {', '.join(splits) or 'none'}")
    name = Path(path).name
    return Source(name, "table", splits, (path, chosen), rows=rows, class_names=of_classes)
