"""What recipes start, counted."""

from unittest.mock import patch

import pytest

from road_ray.recipes.train import teachers as module


@pytest.fixture
def loading():
    """The loading of teachers in this process, which answer rows, as a mock that loads."""
    kind = module.LocalEnsemble
    with patch.object(kind, "__init__", autospec=True, side_effect=kind.__init__) as mock:
        yield mock


@pytest.fixture
def attempt(road, flags, pretraining, tmp_path):
    """``attempt(name, data__key=value)``: ``road pretrain`` in a directory of that name."""

    def run(name: str = "run", **changed: object):
        settings = {key.replace("__", "."): value for key, value in changed.items()}
        return road("pretrain", *flags(pretraining | {"run_dir": tmp_path / name} | settings))

    return run
