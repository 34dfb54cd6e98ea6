"""Registry of layouts, and the examples of a split from the files below a root.

To add a layout, add its reader to ``LAYOUTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import Example, TextExample
from road_ray.data.readers.adv_glue import read_adv_glue
from road_ray.data.readers.conll import read_conll, read_tagged_rows
from road_ray.data.readers.mrqa import read_mrqa
from road_ray.data.readers.multiple_choice import CHOICES, read_choices
from road_ray.data.readers.parts.labels import below_zero
from road_ray.data.readers.parts.table_rows import NESTED, suffix_of
from road_ray.data.readers.qasrl import read_qasrl
from road_ray.data.readers.quac import read_quac
from road_ray.data.readers.sentence_tables import read_table
from road_ray.data.readers.squad import read_squad
from road_ray.data.readers.zre import read_zre
from road_ray.data.task_and_dataset import Dataset
from road_ray.errors import ConfigError, DataError
from road_ray.system.paths import nearest_path

SPLITS = ("train", "dev", "test")

Layout = Callable[[Path, Dataset, str], Sequence[Example]]


def _table(path: Path, dataset: Dataset, split: str) -> Sequence[TextExample]:
    unquoted = dataset.layout != "table"
    options = {"labelled": split != "test", "unquoted": unquoted}
    return read_table(path, dataset.columns_of(split), mapped=dataset.label_map, **options)


def _conll(path: Path, dataset: Dataset, split: str) -> Sequence[Example]:
    table = path.is_dir() or suffix_of(path) in NESTED
    read = read_tagged_rows if table else read_conll
    return read(path, dataset.columns_of(split), labelled=split != "test")


def _choices(path: Path, dataset: Dataset, split: str) -> Sequence[Example]:
    columns = dataset.columns_of(split)
    return read_choices(path, dataset.layout, columns, labelled=split != "test")


LAYOUTS: dict[str, Layout] = {
    "glue_tsv": _table,
    "table": _table,
    "conll": _conll,
    "squad_json": lambda path, dataset, split: read_squad(path),
    "adv_glue": lambda path, dataset, split: read_adv_glue(path, dataset),
    "mrqa": lambda path, dataset, split: read_mrqa(path),
    "quac": lambda path, dataset, split: read_quac(path),
    "qasrl": lambda path, dataset, split: read_qasrl(path),
    "zre": lambda path, dataset, split: read_zre(path),
    **dict.fromkeys(CHOICES, _choices),
}


def read_split(dataset: Dataset, root: Path, split: str) -> list[Example]:
    """Return the examples of ``train``, ``dev`` or ``test`` below ``root``, in order of its files.

    A file may also be compressed as ``.gz``. Train and dev need labels, those of test may be
    hidden. Raises ``DataError`` if a file is missing or damaged, ``ConfigError`` if the entry has
    no such split or layout.
    """
    if dataset.layout not in LAYOUTS:
        raise ConfigError(
            f"data set {dataset.name!r} has layout {dataset.layout!r}; known: {', '.join(LAYOUTS)}"
        )
    read = LAYOUTS[dataset.layout]
    examples: list[Example] = []
    for name in file_names(dataset, split):
        examples += read(_existing(dataset, root, name), dataset, split)
    return without_hidden_labels(examples, dataset) if split == "test" else examples


def without_hidden_labels(examples: Iterable[Example], dataset: Dataset) -> list[Example]:
    """Return the examples with None for a label that is empty, or below 0 where no label is."""

    def hidden(label: str | None) -> bool:
        if label is None or label in dataset.label_map:
            return False
        return label == "" or (not dataset.negative_labels and below_zero(label))

    return [
        replace(e, label=None) if isinstance(e, TextExample) and hidden(e.label) else e
        for e in examples
    ]


def is_there(dataset: Dataset, root: Path, split: str) -> bool:
    """Return True if the entry has this split and ``root`` has all of its files."""
    if not getattr(dataset.splits, split):
        return False
    folder = root / dataset.folder
    return all(
        any((folder / f"{name}{end}").exists() for name in names.split("|") for end in ("", ".gz"))
        for names in file_names(dataset, split)
    )


def require_files(dataset: Dataset, root: Path, split: str) -> None:
    """Raise ``DataError`` if a file of a split is missing or empty."""
    for name in file_names(dataset, split):
        _existing(dataset, root, name)


def file_names(dataset: Dataset, split: str) -> tuple[str, ...]:
    """Return the files of a split. Raises ``ConfigError`` if the entry has no such split."""
    if split not in SPLITS:
        raise ConfigError(f"unknown split {split!r}; known: {', '.join(SPLITS)}")
    names: str | tuple[str, ...] | None = getattr(dataset.splits, split)
    if not names:
        has = [name for name in SPLITS if getattr(dataset.splits, name)]
        raise ConfigError(
            f"data set {dataset.name!r} has no {split} split; it has: {', '.join(has)}\n"
            f"  fix: name another data set, or give its entry a file for {split}"
        )
    return (names,) if isinstance(names, str) else names


def _existing(dataset: Dataset, root: Path, names: str) -> Path:
    folder = root / dataset.folder
    plain = [folder / name for name in names.split("|")]
    for uncompressed in plain:
        for path in (uncompressed, uncompressed.with_name(f"{uncompressed.name}.gz")):
            if path.is_dir():
                return path
            if path.is_file():
                if not path.stat().st_size:
                    raise DataError(
                        f"{path}: 0 rows, the file is empty\n  fix: download or write it again"
                    )
                return path
    there = "the folder does not exist"
    if plain[0].parent.is_dir():
        there = "the folder holds " + (
            ", ".join(sorted(p.name for p in plain[0].parent.iterdir())[:8]) or "nothing"
        )
    alternatives = ", ".join([f"{plain[0].name}.gz", *(path.name for path in plain[1:])])
    expected = Path(dataset.folder) / names
    raise DataError(
        f"data set {dataset.name!r}: no file {plain[0]} (or {alternatives}); {there}"
        f"{nearest_path(plain[0])}\n"
        f"  data.root is {root}; expected below it: {expected}\n"
        f"  fix: set `data.root` (or ROAD_DATA) to the directory that holds {expected.parts[0]}; "
        "for another layout, declare a data set of your own (data.sets)"
    )
