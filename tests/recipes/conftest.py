"""What recipes start, counted."""

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


@pytest.fixture
def attempt(road, flags, pretraining, tmp_path):
    """``attempt(name, data__key=value)``: ``road pretrain`` in a directory of that name."""

    def run(name: str = "run", **changed: object):
        settings = {key.replace("__", "."): value for key, value in changed.items()}
        return road("pretrain", *flags(pretraining | {"run_dir": tmp_path / name} | settings))

    return run
