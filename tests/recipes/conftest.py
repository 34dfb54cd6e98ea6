"""What recipes start, counted."""

from __future__ import annotations

import pytest

from road_ray.recipes.train import teachers as module


@pytest.fixture
def loaded(monkeypatch):
    """Numbers of teachers that were loaded in this process to answer rows, by labelling."""
    counts, load_teachers = [], module.LocalEnsemble.__init__

    def counted(self, directories, *arguments, **options):
        counts.append(len(directories))
        load_teachers(self, directories, *arguments, **options)

    monkeypatch.setattr(module.LocalEnsemble, "__init__", counted)
    return counts
