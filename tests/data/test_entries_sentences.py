"""The entries of sentences are whole: names of tasks, layouts and metrics that exist."""

from __future__ import annotations

import pytest

from road_ray.data.catalog import DATASETS, TASKS
from road_ray.data.entries_sentences import SENTENCES
from road_ray.data.readers import LAYOUTS
from road_ray.data.specs import Classify, Span, Tag
from road_ray.evaluation.metrics import METRICS


@pytest.mark.parametrize("entry", SENTENCES, ids=lambda entry: entry.name)
def test_an_entry_names_what_there_is(entry):
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
