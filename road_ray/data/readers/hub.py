"""Tables of the Hugging Face hub. Its copies differ from the published files in columns, which
``Hub.columns`` of the catalogue names, and in labels, which are numbers of classes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any

from road_ray.data.readers.tables import Row, Table, names_of_features, with_class_names
from road_ray.data.task_and_dataset import Dataset, Hub
from road_ray.errors import ConfigError, DataError

_log = logging.getLogger(__name__)
_SPLITS = {"dev": "validation"}


def split_of_hub(dataset: Dataset, split: str) -> tuple[Any, str]:
    """Return a split of the Hugging Face hub or its local cache as a ``datasets.Dataset``, and its
    name for messages.
    """
    hub = dataset.hub
    if hub is None:
        raise ConfigError(
            f"data set {dataset.name!r} is not on the hub\n"
            f"  fix: set `data.root` (or ROAD_DATA) to a directory with {dataset.folder}/"
        )
    part = hub.splits.get(split, _SPLITS.get(split, split))
    try:
        rows = load_rows(hub, part)
        if hub.only is not None:
            column, subset = hub.only
            rows = rows.filter(lambda value: value == subset, input_columns=column)
    except Exception as error:  # datasets raises many types when offline, gated or renamed
        remedy = f"hub, configuration, revision and split of data.sets.{dataset.name}"
        if dataset.folder:
            remedy = f"set `data.root` (or ROAD_DATA) to a directory with {dataset.folder}/"
        raise DataError(
            f"data set {dataset.name!r}: {hub.path} ({hub.configuration}) split {part!r} could "
            f"not be loaded from the hub: {type(error).__name__}: {error}\n"
            f"  fix: check the network, or {remedy}"
        ) from error
    return rows, f"hf://{hub.path}/{part}"


def hub_table(
    dataset: Dataset, rows: Any, name: str, convert: Callable[[Row, str], Row] | None = None
) -> Table:
    """Return the table of a ``datasets.Dataset``, with names of classes, but for numbers that are
    labels of the files; ``convert`` turns a row into that of a file.
    """
    placed = placed_rows(rows, name, dataset.label_map)
    if convert is not None:
        placed = ((where, convert(row, where)) for where, row in placed)
    return Table(name, placed, (dataset.hub and dataset.hub.columns) or dataset.columns)


def placed_rows(rows: Any, name: str, numbers: Collection[str] = ()) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a ``datasets.Dataset``, each with its place, and with the names of classes
    but for ``numbers``.
    """
    placed = ((f"{name}:{number}", row) for number, row in enumerate(rows, 1))
    return with_class_names(placed, names_of_features(rows.features), numbers)


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
