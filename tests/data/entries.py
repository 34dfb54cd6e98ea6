"""What holds for every entry of the catalogue, whichever file it stands in."""

from __future__ import annotations

from road_ray.data.catalog import DATASETS, TASKS
from road_ray.data.readers.layouts import LAYOUTS
from road_ray.data.task_and_dataset import Classify, Dataset, Span, Tag
from road_ray.evaluation.metrics import METRICS


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
