"""Checks of every entry of the catalogue, and the examples of a file of any layout."""

from __future__ import annotations

from pathlib import Path

from road_ray.data.catalog import DATASETS, TASKS
from road_ray.data.readers.layouts import LAYOUTS, read_split
from road_ray.data.task_and_dataset import Classify, Columns, Dataset, Span, Splits, Tag
from road_ray.evaluation.metrics import METRICS

NO_COLUMNS = Columns(())


def check(entry: Dataset) -> None:
    """It names tasks, layouts, metrics and labels that exist, and has a split."""
    assert DATASETS[entry.name] is entry
    assert entry.layout in LAYOUTS
    kind = TASKS[entry.task].kind
    known = {"exact", "f1"} if isinstance(kind, Span) else set(METRICS)
    assert set(entry.metrics) <= ({"entity_f1"} if isinstance(kind, Tag) else known)
    if entry.label_map:
        assert isinstance(kind, Classify)
        assert set(entry.label_map.values()) <= set(kind.labels)
    assert set(entry.also) <= set(TASKS)
    assert entry.splits.train or entry.splits.dev or entry.splits.test


def read(path: Path, layout: str, columns: Columns = NO_COLUMNS, split: str = "train", **keys):
    """Examples of one file as a split of a data set of that layout."""
    splits = Splits(**dict.fromkeys(("train", "dev", "test")) | {split: path.name})
    entry = Dataset("own", "t", layout, "", columns=columns, splits=splits, **keys)
    return read_split(entry, path.parent, split)
