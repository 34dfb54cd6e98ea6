"""Tables of the Hugging Face hub, whose copies differ from the published files in columns and
labels.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from road_ray.data.readers.tables import (
    Row,
    Table,
    missing_columns,
    names_of_features,
    with_class_names,
)
from road_ray.data.task_and_dataset import Columns, Dataset, Hub
from road_ray.errors import ConfigError, DataError

_log = logging.getLogger(__name__)
Convert = Callable[[Row, str], Row]


def hub_tables(
    dataset: Dataset, split: str, file_names: Iterable[str], convert: Convert | None = None
) -> Iterator[Table]:
    """Yield the tables of a split from the Hugging Face hub or its local cache, one for each of the
    published files; ``convert`` turns a row into that of a file.
    """
    if dataset.hub is None:
        raise ConfigError(
            f"data set {dataset.name!r} is not on the hub\n"
            "  fix: set `data.root` (or ROAD_DATA) to a "
            f"directory with {dataset.folder}/"
        )
    for part in dict.fromkeys(_hub_split(dataset.hub, name, split) for name in file_names):
        try:
            rows = load_rows(dataset.hub, part)
            if dataset.hub.only is not None:
                column, subset = dataset.hub.only
                rows = rows.filter(lambda value, same=subset: value == same, input_columns=column)
        except Exception as error:  # datasets raises many types when offline, gated or renamed
            remedy = f"hub, configuration, revision and split of data.sets.{dataset.name}"
            if dataset.folder:
                remedy = f"set `data.root` (or ROAD_DATA) to a directory with {dataset.folder}/"
            raise DataError(
                f"data set {dataset.name!r}: {dataset.hub.path} ({dataset.hub.configuration}) "
                f"split {part!r} could not be loaded from the hub: {type(error).__name__}: "
                f"{error}\n  fix: check the network, or {remedy}"
            ) from error
        yield hub_table(dataset, rows, f"hf://{dataset.hub.path}/{part}", convert)


def hub_table(dataset: Dataset, rows: Any, name: str, convert: Convert | None = None) -> Table:
    """Return the table of a ``datasets.Dataset``, with names of classes, but for numbers that are
    labels of the files.
    """
    placed: Iterable[tuple[str, Row]] = ((f"{name}:{n}", row) for n, row in enumerate(rows, 1))
    placed = with_class_names(placed, names_of_features(rows.features), dataset.label_map)
    if convert is not None:
        placed = ((where, convert(row, where)) for where, row in placed)
    columns = dataset.columns
    if dataset.layout in ("table", "glue_tsv", "adv_glue"):
        columns = _columns(dataset, rows.features, name)
    return Table(name, placed, columns)


def _columns(dataset: Dataset, features: Any, name: str) -> Columns:
    """Return the columns of text, label and id; renamed texts are identified by type and order."""
    columns = dataset.columns
    wanted = [str(text) for text in columns.text]
    if not dataset.folder:  # a set of the user's own: its columns have the names that it gives
        return replace(columns, text=tuple(wanted))
    labels = [*str(columns.label).split("|"), "label"]
    label = next((column for column in labels if column in features), None)
    texts = wanted
    if any(text not in features for text in wanted):
        strings = (n for n, f in features.items() if getattr(f, "dtype", None) == "string")
        texts = [column for column in strings if column != label]
    if len(texts) != len(wanted):
        raise DataError(missing_columns(name, wanted, list(features)))
    id = next((column for column in (str(columns.id), "idx") if column in features), None)
    return Columns(tuple(texts), label, id)


def load_rows(hub: Hub, split: str, *, streaming: bool = False) -> Any:
    """Return a split of a data set of the hub, or of a folder in its layout; of ``first_rows``,
    only they are fetched. Cells of CSV files such as ``null``, ``NA`` and ``nan`` are words.
    """
    datasets, place = datasets_library(), (hub.path, hub.configuration)
    builder = datasets.load_dataset_builder(*place, revision=hub.revision)
    is_csv = hasattr(builder.config, "keep_default_na")
    options = {"keep_default_na": False, "na_values": [""]} if is_csv else {}
    options |= {"split": split, "streaming": streaming or hub.first_rows is not None}
    rows = datasets.load_dataset(*place, revision=hub.revision, **options)
    if hub.first_rows is None:
        return rows
    _log.warning(
        "%s: only the first %d rows of %s are read (first_rows); without that key, all of them",
        hub.path,
        hub.first_rows,
        split,
    )
    return datasets.Dataset.from_list(list(rows.take(hub.first_rows)), features=rows.features)


def datasets_library() -> Any:
    """Return `datasets` without its own log handler: its records also reach the root's handlers and
    would be printed twice.
    """
    import datasets

    logging.getLogger(datasets.__name__).handlers.clear()
    return datasets


def _hub_split(hub: Hub, file_name: str, split: str) -> str:
    """Return the hub's split of a file: ``dev_matched.tsv`` -> ``validation_matched``."""
    if split in hub.splits:
        return hub.splits[split]
    variant = re.match(r"(dev|test)(_(mis)?matched)?", file_name)
    return {"dev": "validation"}.get(split, split) + ((variant and variant.group(2)) or "")
