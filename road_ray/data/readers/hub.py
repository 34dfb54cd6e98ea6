"""Reader of the Hugging Face hub, whose copies differ from the published files in columns and
labels.

The examples are those of the other readers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from road_ray.data.features.examples_and_features import Example, TextExample
from road_ray.data.readers.conll import tagged_row, word_and_tag
from road_ray.data.readers.layouts import file_names, without_hidden_labels
from road_ray.data.readers.mrqa import from_hub as mrqa_row
from road_ray.data.readers.multiple_choice import CHOICES, choice_examples
from road_ray.data.readers.parts.labels import label_text
from road_ray.data.readers.parts.text_files import check_text, missing_columns
from road_ray.data.readers.squad import flat_examples
from road_ray.data.readers.zre import zre_example
from road_ray.data.task_and_dataset import Dataset, Hub
from road_ray.errors import ConfigError, DataError

_log = logging.getLogger(__name__)


def read_hub(dataset: Dataset, split: str) -> list[Example]:
    """Return the examples of a split from the Hugging Face hub or its local cache."""
    if dataset.hub is None:
        raise ConfigError(
            f"data set {dataset.name!r} is not on the hub\n"
            "  fix: set `data.root` (or ROAD_DATA) to a "
            f"directory with {dataset.folder}/"
        )
    path, configuration = dataset.hub.path, dataset.hub.configuration
    examples: list[Example] = []
    for part in dict.fromkeys(_hub_split(dataset, n, split) for n in file_names(dataset, split)):
        try:
            rows = _loaded(dataset.hub, part)
            if dataset.hub.only is not None:
                column, subset = dataset.hub.only
                rows = rows.filter(lambda value, same=subset: value == same, input_columns=column)
        except Exception as error:  # datasets raises many types when offline, gated or renamed
            raise DataError(
                f"data set {dataset.name!r}: {path} ({configuration}) split {part!r} "
                f"could not be loaded from the hub: {type(error).__name__}: {error}\n"
                + (
                    "  fix: check the network, or set `data.root` (or ROAD_DATA) to a directory "
                    f"with {dataset.folder}/"
                    if dataset.folder
                    else f"  fix: check the network, and hub, configuration, revision and split of "
                    f"data.sets.{dataset.name}"
                )
            ) from error
        where = f"hf://{path}/{part}"
        examples += hub_examples(dataset, rows, where, labelled=split != "test")
    return examples


def _loaded(hub: Hub, split: str) -> Any:
    """Return a split as a ``datasets.Dataset``; of ``first_rows``, only they are fetched."""
    if hub.first_rows is None:
        return load_rows(hub.path, hub.configuration, split, revision=hub.revision)
    rows = load_rows(hub.path, hub.configuration, split, revision=hub.revision, streaming=True)
    _log.warning(
        "%s: only the first %d rows of %s are read (first_rows); without that key, all of them",
        hub.path,
        hub.first_rows,
        split,
    )
    first = list(rows.take(hub.first_rows))
    return datasets_library().Dataset.from_list(first, features=rows.features)


def load_rows(
    path: str,
    configuration: str | None,
    split: str,
    *,
    revision: str | None = None,
    streaming: bool = False,
) -> Any:
    """Return a split of a data set of the hub, or of a folder in its layout. Cells of CSV files
    such as ``null``, ``NA`` and ``nan`` are words there too.
    """
    datasets = datasets_library()
    builder = datasets.load_dataset_builder(path, configuration, revision=revision)
    is_csv = hasattr(builder.config, "keep_default_na")
    words = {"keep_default_na": False, "na_values": [""]} if is_csv else {}
    return datasets.load_dataset(
        path, configuration, split=split, revision=revision, streaming=streaming, **words
    )


def datasets_library() -> Any:
    """Return `datasets` without its own log handler: its records also reach the root's handlers and
    would be printed twice.
    """
    import datasets

    logging.getLogger(datasets.__name__).handlers.clear()
    return datasets


def hub_examples(dataset: Dataset, rows: Any, where: str, *, labelled: bool) -> list[Example]:
    """Return the examples of a ``datasets.Dataset``, with class numbers as labels of the files.

    ``labelled`` drops rows without a label, with a warning; otherwise a hidden label is None.
    """
    placed = ((f"{where}:{n + 1}", row) for n, row in enumerate(rows))
    if dataset.layout in CHOICES:
        layout, columns = dataset.layout, dataset.columns
        return [*choice_examples(placed, where, layout, columns, labelled=labelled)]
    if dataset.layout == "squad_json":
        return [*flat_examples(placed, where)]
    if dataset.layout in _ROWS:
        make = _ROWS[dataset.layout]
        return [make(row, place) for place, row in placed]
    if dataset.layout == "conll":
        column = rows.features.get(word_and_tag(dataset.columns)[1])
        tags = list(getattr(getattr(column, "feature", None), "names", ()))
        return [
            tagged_row(row, dataset.columns, str(n), place, tags, labelled=labelled)
            for n, (place, row) in enumerate(placed)
        ]
    texts, label, name = _hub_columns(dataset, rows, where)
    names = getattr(rows.features.get(label), "names", None) if label else None
    examples: list[Example] = []
    for index, (place, row) in enumerate(placed):
        value = _hub_label(dataset, row[label], names) if label else None
        if value is not None or not labelled:
            example_texts = tuple(check_text(row[text], place, text) for text in texts)
            number = str(row[name]) if name else str(index)
            examples.append(TextExample(number, example_texts, value, place))
    if not examples:
        raise DataError(f"{where}: 0 usable rows of {len(rows)}")
    if len(examples) < len(rows):
        _log.warning("%s: dropped %d rows without a label", where, len(rows) - len(examples))
    return examples if labelled else without_hidden_labels(examples, dataset)


def _zre_row(row: Any, where: str) -> Example:
    cells = [row[name] for name in ("relation", "question", "subject", "context")]
    return zre_example([*cells, *row["answers"]], where.rsplit(":", 1)[-1], where)


_ROWS: dict[str, Callable[[Any, str], Example]] = {
    "mrqa": mrqa_row,
    "zre": _zre_row,
}


def _hub_columns(
    dataset: Dataset, rows: Any, where: str
) -> tuple[list[str], str | None, str | None]:
    """Return names of texts, label and id; renamed texts are identified by type and order."""
    features = rows.features
    texts = [str(text) for text in dataset.columns.text]
    if not dataset.folder:  # a set of the user's own: its columns have the names that it gives
        required = [*texts, *(str(n) for n in (dataset.columns.label, dataset.columns.id) if n)]
        if missing := [name for name in required if name not in features]:
            raise DataError(missing_columns(where, missing, list(features)))
    if any(text not in features for text in texts):
        texts = [n for n, f in features.items() if getattr(f, "dtype", None) == "string"]
    labels = [*str(dataset.columns.label).split("|"), "label"]
    label = next((n for n in labels if n in features), None)
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
        return None if value is None else label_text(value)
    if value is None or value < 0:  # -1: no label in SNLI, or a hidden test label
        return None
    return str(value) if str(value) in dataset.label_map else names[value]


def _hub_split(dataset: Dataset, file_name: str, split: str) -> str:
    """Return the hub's split of a file: ``dev_matched.tsv`` -> ``validation_matched``."""
    assert dataset.hub is not None
    if split in dataset.hub.splits:
        return dataset.hub.splits[split]
    variant = re.match(r"(dev|test)(_(mis)?matched)?", file_name)
    return {"dev": "validation"}.get(split, split) + ((variant and variant.group(2)) or "")
