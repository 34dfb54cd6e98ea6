"""Record of the rows that a model was trained on, so that no later command asks for them."""

from __future__ import annotations

from typing import Any

from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import ChoiceExample, SpanExample, TagExample
from road_ray.data.load_split import Split
from road_ray.data.readers.conll import word_and_tag
from road_ray.data.readers.parts.table_rows import TABLES
from road_ray.data.task_and_dataset import Dataset

_OF_FILES = {"train", "dev", "test", "dev_fraction", "hub", "configuration", "revision"}
_KEYS = ("span_head", "pair_head", "tag_head", "history_turns")  # of reading and heads


def trained_rows(data: SourceConfig, split: Split) -> dict[str, Any]:
    """Return the entries of ``road_ray.json`` on the rows of a training: the columns of each field
    of ``road predict``, the column of ids, the layout, and the entry of an own data set without its
    files, which are those of this machine.
    """
    dataset = split.dataset
    keys = data.model_dump(mode="json", include=set(_KEYS), exclude_defaults=True)
    entry = data.sets.get(dataset.name)
    if entry is not None:
        written = entry.model_dump(mode="json", exclude=_OF_FILES, exclude_defaults=True)
        keys["sets"] = {dataset.name: written}
    return {
        "columns": _columns(split),
        "id_column": dataset.columns.id if isinstance(dataset.columns.id, str) else None,
        "layout": dataset.layout,
        "data": keys,
    }


def _columns(split: Split) -> dict[str, Any]:
    """Return the columns of a row by the fields of `road predict`; the fields themselves where the
    layout has no names of columns.
    """
    example, columns = split.examples[0], split.dataset.columns.text
    match example:
        case SpanExample():
            return {"question": "question", "context": "context"}
        case TagExample():
            in_table = split.dataset.hub is not None or _is_table(split.dataset)
            return {"words": word_and_tag(split.dataset.columns)[0] if in_table else columns[0]}
        case ChoiceExample():
            named = split.dataset.layout == "choices" and all(isinstance(c, str) for c in columns)
            choices = list(columns[1:]) if named else "choices"
            return {"question": columns[0] if named else "question", "choices": choices}
    fields = ("text", "text_pair")[: len(example.texts)]
    if len(columns) != len(fields):
        return dict(zip(fields, fields, strict=True))
    pairs = zip(fields, columns, strict=True)
    return {f: c if isinstance(c, str) and "|" not in c else f for f, c in pairs}


def _is_table(dataset: Dataset) -> bool:
    """Return True if the training rows are in a table rather than in a file of columns."""
    name = str(dataset.splits.train).removesuffix(".gz")
    return name.endswith(tuple(suffix for suffix in TABLES if suffix != ".tsv"))
