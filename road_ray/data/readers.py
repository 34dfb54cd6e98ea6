"""Examples of a data set's split, from the files below a root or from the hub."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from road_ray.data.choices import CHOICES, read_choices
from road_ray.data.conll import read_conll
from road_ray.data.features import Example, TextExample
from road_ray.data.specs import Dataset
from road_ray.data.squad_json import read_squad, span_example
from road_ray.data.text_rows import read_glue_tsv, read_table
from road_ray.errors import ConfigError, DataError

_log = logging.getLogger(__name__)

SPLITS = ("train", "dev", "test")

Layout = Callable[[Path, Dataset, bool], list[Example]]


def _choices(path: Path, dataset: Dataset, labelled: bool) -> list[Example]:
    return [*read_choices(path, dataset.layout, dataset.columns, labelled=labelled)]


# path, entry and whether a label is demanded -> examples
LAYOUTS: dict[str, Layout] = {
    "glue_tsv": lambda path, d, labelled: [*read_glue_tsv(path, d.columns, labelled=labelled)],
    "table": lambda path, d, labelled: [*read_table(path, d.columns, labelled=labelled)],
    "squad_json": lambda path, d, labelled: [*read_squad(path)],
    "conll": lambda path, d, labelled: [*read_conll(path, d.columns, labelled=labelled)],
}
LAYOUTS |= {name: _choices for name in CHOICES}


def read_split(dataset: Dataset, root: Path, split: str) -> list[Example]:
    """All examples of ``train``, ``dev`` or ``test`` below ``root``; dev files follow each other.

    Each file is looked for plain and as ``.gz``. Train and dev must have labels. Raises
    ``DataError`` when a file is missing or unusable, ``ConfigError`` when the entry has no such
    split or layout.
    """
    if dataset.layout not in LAYOUTS:
        raise ConfigError(
            f"data set {dataset.name!r} has layout {dataset.layout!r}; known: {', '.join(LAYOUTS)}"
        )
    read = LAYOUTS[dataset.layout]
    examples: list[Example] = []
    for name in _file_names(dataset, split):
        examples += read(_existing(dataset, root, name), dataset, split != "test")
    return examples


def read_hub(dataset: Dataset, split: str) -> list[Example]:
    """The same examples from the Hugging Face hub (or its local cache), without a root."""
    if dataset.hub is None:
        raise ConfigError(
            f"data set {dataset.name!r} is not on the hub\n"
            "  fix: set `data.root` (or ROAD_DATA) to a "
            f"directory that holds {dataset.folder}/"
        )
    from datasets import load_dataset

    path, configuration = dataset.hub
    examples: list[Example] = []
    for name in _file_names(dataset, split):
        part = _hub_split(name, split)
        try:
            rows = load_dataset(path, configuration, split=part)
        except Exception as error:  # datasets raises a dozen kinds when offline, gated or renamed
            raise DataError(
                f"data set {dataset.name!r}: {path} ({configuration}) split {part!r} "
                f"could not be loaded from the hub: {type(error).__name__}: {error}\n"
                "  fix: check the network, or set `data.root` (or ROAD_DATA) to a directory with "
                f"{dataset.folder}/"
            ) from error
        where = f"hf://{path}/{part}"
        examples += hub_examples(dataset, rows, where, labelled=split != "test")
    return examples


def hub_examples(dataset: Dataset, rows: Any, where: str, *, labelled: bool) -> list[Example]:
    """Examples from a ``datasets.Dataset``; class numbers become what the files say.

    With ``labelled``, rows without gold are dropped and counted.
    """
    if dataset.layout == "squad_json":
        return [
            span_example(
                str(row["id"]), row["question"], row["context"],
                list(zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)),
                f"{where}: question {row['id']!r}",
            )
            for row in rows
        ]  # fmt: skip
    texts, label, name = _hub_columns(dataset, rows, where)
    names = getattr(rows.features.get(label), "names", None) if label else None
    examples: list[Example] = []
    for index, row in enumerate(rows):
        gold = _hub_label(dataset, row[label], names) if label else None
        if gold is not None or not labelled:
            examples.append(
                TextExample(
                    id=str(row[name]) if name else str(index),
                    texts=tuple(row[text] for text in texts),
                    label=gold,
                    where=f"{where}:{index + 1}",
                )
            )
    if not examples:
        raise DataError(f"{where}: 0 usable rows of {len(rows)}")
    if len(examples) < len(rows):
        _log.warning("%s: dropped %d rows without gold", where, len(rows) - len(examples))
    return examples


def _hub_columns(
    dataset: Dataset, rows: Any, where: str
) -> tuple[list[str], str | None, str | None]:
    """Names of texts, label and id; hub copies rename columns, so texts go by type and order."""
    features = rows.features
    texts = [str(text) for text in dataset.columns.text]
    if any(text not in features for text in texts):
        texts = [n for n, f in features.items() if getattr(f, "dtype", None) == "string"]
    label = next((n for n in (str(dataset.columns.label), "label") if n in features), None)
    texts = [text for text in texts if text != label]
    if len(texts) != len(dataset.columns.text):
        raise DataError(
            f"{where}: {len(dataset.columns.text)} text columns wanted {dataset.columns.text}, "
            f"found {texts} among {list(features)}"
        )
    name = next((n for n in (str(dataset.columns.id), "idx") if n in features), None)
    return texts, label, name


def _hub_label(dataset: Dataset, value: Any, names: list[str] | None) -> str | None:
    if names is None:
        return None if value is None else str(value)
    if value is None or value < 0:  # -1: SNLI without gold, or a hidden test label
        return None
    return str(value) if str(value) in dataset.label_map else names[value]


def _hub_split(file_name: str, split: str) -> str:
    """``dev_matched.tsv`` is ``validation_matched`` on the hub."""
    if split != "dev":
        return split
    variant = re.match(r"dev(_[a-z]+)?", file_name)
    return "validation" + ((variant and variant.group(1)) or "")


def _file_names(dataset: Dataset, split: str) -> tuple[str, ...]:
    if split not in SPLITS:
        raise ConfigError(f"unknown split {split!r}; known: {', '.join(SPLITS)}")
    found: str | tuple[str, ...] | None = getattr(dataset.splits, split)
    if not found:
        has = [name for name in SPLITS if getattr(dataset.splits, name)]
        raise ConfigError(
            f"data set {dataset.name!r} has no {split} split; it has: {', '.join(has)}"
        )
    return (found,) if isinstance(found, str) else found


def _existing(dataset: Dataset, root: Path, name: str) -> Path:
    wanted = root / dataset.folder / name
    packed = wanted.with_name(f"{name}.gz")
    for path in (wanted, packed):
        if path.is_file():
            if not path.stat().st_size:
                raise DataError(f"{path}: 0 rows, the file is empty\n  fix: fetch it again")
            return path
    there = "the folder does not exist"
    if wanted.parent.is_dir():
        there = "the folder holds " + (
            ", ".join(sorted(p.name for p in wanted.parent.iterdir())[:8]) or "nothing"
        )
    raise DataError(
        f"data set {dataset.name!r}: no file {wanted} (or {packed.name}); {there}\n"
        f"  data.root is {root}; the catalogue entry names {dataset.folder}/{name}\n"
        "  fix: set `data.root` (or ROAD_DATA) to the directory above, or correct the entry"
    )
