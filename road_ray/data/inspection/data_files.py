"""Files of a data set by split, their layout, and the rows in them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from road_ray.data.readers.conll import TAG, cells_of, conll_rows
from road_ray.data.readers.squad import flat_rows
from road_ray.data.readers.tables import (
    TABLES,
    Row,
    asking_hub,
    class_names,
    datasets_library,
    load_rows,
    names_of_features,
    numbered_lines,
    placed_rows,
    suffix_of,
    table_rows,
    with_class_names,
)
from road_ray.data.task_and_dataset import Columns, Hub
from road_ray.errors import ConfigError, DataError
from road_ray.system.files import SUFFIXES, nearest_path

MOST_ROWS = 100_000  # of a split that are inspected
HUB = "hub:"
_CONLL = (".conll", ".iob", ".iob2", ".bio", ".train", ".testa", ".testb")
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


@dataclass
class Guess:
    """Data set with its files, or names of splits of ``hub``, by ``train``, ``dev`` and ``test``,
    of each of which the first is read, and the guessed ``entry`` of ``data.sets`` for it, with the
    reasons as lines of text.

    ``class_names`` has the names of classes that are numbers in the file, by column; the rows have
    the names. ``kind`` is that of ``data.sets``, or ``corpus`` for pre-training text, whose number
    of characters is known if it is in files.
    """

    name: str
    layout: Layout
    files: Mapping[str, Sequence[str]]
    hub: Hub | None = None
    rows: Mapping[str, Rows] = field(default_factory=dict)
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kind: str = ""
    entry: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    max_length_tokens: int | None = None
    num_characters: int | None = None

    @property
    def splits(self) -> dict[str, str]:
        """The file or split that is read."""
        return {split: group[0] for split, group in self.files.items()}

    @property
    def num_rows(self) -> int:
        return len(self.rows.get("train", ()))


def found_at(place: str) -> Guess:
    """Return the data set in a file, a folder or on the hub (``hub:NAME`` or
    ``hub:NAME:CONFIGURATION``), with its rows; nothing is guessed yet.

    Raises ``ConfigError`` for a place without data, ``DataError`` for data that cannot be read.
    """
    if place.startswith(HUB):
        return _on_hub(place.removeprefix(HUB))
    path = Path(place).expanduser()
    if not path.exists():
        raise ConfigError(
            f"{place}: no such file or directory{nearest_path(path)}\n"
            f"  fix: check the path, or name a data set of the hub by {HUB}ORGANISATION/NAME"
        )
    files, name = _files_of(path), path.resolve().name
    if path.is_dir() and any(len(g) > 1 and g[0].endswith(".parquet") for g in files.values()):
        return _on_hub(str(path.resolve()))  # several parquet files a split, as on the hub
    if path.is_file():
        stem = path.name.removesuffix(".gz").removesuffix(suffix_of(path))
        name = _WORDS.sub("", stem, count=1).strip("-_. ") or path.resolve().parent.name
    train = Path(files["train"][0])
    layout = layout_of(train)
    if layout == "text":
        return Guess(name, layout, files)
    read: dict[str, Rows] = {}
    for split, (file, *_) in files.items():
        if layout == "conll":
            rows = conll_rows(Path(file), Columns((0,), -1), split != "test")
        else:  # SQuAD's are flat rows
            asked = flat_rows(table_rows(Path(file)))
            rows = with_class_names(asked, class_names(Path(file)), ())
        read[split] = list(islice(rows, MOST_ROWS))
    return Guess(name, layout, files, None, read, class_names(train))


def layout_of(path: Path) -> Layout:
    """Return the layout of a file, or of the files in a folder. What has no other is a table, whose
    reader refuses other formats.
    """
    suffix = suffix_of(path)
    if path.is_dir():
        return "table" if [*path.glob("*.parquet"), *path.glob("*.arrow")] else "text"
    if suffix in _CONLL:
        return "conll"
    if suffix in (".txt", ".tsv", ""):  # words with columns, of which the last is a tag
        lines = (cells_of(line) for _, line in islice(numbered_lines(path), _SNIFFED_LINES))
        words = [cells for cells in lines if cells and cells[0] != "-DOCSTART-"]
        if words and all(len(cells) > 1 and TAG.fullmatch(cells[-1]) for cells in words):
            return "conll"
    return "text" if path.name.endswith(_TEXT) else "table"


def _files_of(path: Path) -> dict[str, list[str]]:
    """Return the files of a data set by split: of a file it and, if it is a training file, those
    beside it; of a folder those that their names say, or all as the training split.
    """
    if path.is_file():
        pattern, others = _WORDS.sub("*", path.name, count=1), path.parent.iterdir()
        beside = _by_split(str(f) for f in others if _WORDS.sub("*", f.name, count=1) == pattern)
        return (beside if str(path) in beside.get("train", ()) else {}) | {"train": [str(path)]}
    saved = path / "dataset_dict.json"  # DatasetDict.save_to_disk
    files = sorted(f for f in path.iterdir() if f.is_file() and not f.name.startswith((".", "_")))
    if saved.is_file():
        files = [path / name for name in json.loads(saved.read_text(encoding="utf-8"))["splits"]]
    by_split = _by_split(map(str, files))
    if "train" in by_split and layout_of(Path(by_split["train"][0])) != "text":
        return by_split
    tables = [file for file in files if suffix_of(file) in TABLES]
    has_text = any(file.name.endswith(_TEXT) for file in path.rglob("*"))
    if layout_of(path) == "table" or (has_text and not tables):
        return {"train": [str(path)]}
    if len(tables) == 1:
        return _files_of(tables[0])
    listed = ", ".join(sorted(entry.name for entry in path.iterdir())[:12]) or "nothing"
    what = f"{len(tables)} tables, and no name says which is for training" if tables else "no data"
    raise ConfigError(
        f"{path}: {what}; found: {listed}\n"
        "  fix: name the file or the folder of one data set, or call its files train, dev and test"
    )


def _by_split(names: Iterable[str]) -> dict[str, list[str]]:
    """Return files, or names of splits, by ``train``, ``dev`` and ``test``."""
    by_split: dict[str, list[str]] = {split: [] for split in _SPLITS}
    for name in sorted(names):
        if match := _WORDS.search(Path(name).name):
            by_split[_SPLIT_OF[match[0].lower()]].append(name)
    return {split: group for split, group in by_split.items() if group}


def _on_hub(place: str) -> Guess:
    path, _, configuration = (place, "", "") if Path(place).is_dir() else place.partition(":")
    hub = Hub(path, configuration or None)
    with asking_hub(f"hub:{place}"):
        names = datasets_library().get_dataset_split_names(hub.path, hub.configuration)
        files = _by_split(map(str, names))
        known = {split: of[0] for split, of in files.items() if split != "test"}
        loaded = {split: load_rows(hub, part, streaming=True) for split, part in known.items()}
        rows = {
            split: list(islice(placed_rows(part, f"hf://{path}/{split}"), MOST_ROWS))
            for split, part in loaded.items()
        }
    if "train" not in files:
        raise DataError(f"hub:{place}: no split `train`; found: {', '.join(files) or 'none'}")
    classes = names_of_features(loaded["train"].features)
    return Guess(Path(path).name, "table", files, hub, rows, classes)
