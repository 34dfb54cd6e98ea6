"""Storage of studies: a study opens for its own sweep only."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3

import optuna
import pytest

from road_ray.config import load
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study_storage import open_storage
from road_ray.errors import ConfigError, ResourceError

BASE = {"metric": "m", "space": {"x": {"uniform": [0, 1]}}}


def search(**values):
    return load(SearchConfig, base=BASE, overrides=values)


@pytest.mark.parametrize("url", ["sqlite:////nowhere/at/all/x.db", "mysql+nodriver://me@host/db"])
def test_a_storage_that_cannot_be_opened_is_told_without_its_password(tmp_path, url, monkeypatch):
    monkeypatch.setenv("ROAD_SWEEP_PASSWORD", "secret")
    with pytest.raises(ResourceError, match="cannot be opened") as error:
        open_storage(search(storage=url), "s", tmp_path)
    assert "secret" not in str(error.value)


def test_a_database_of_another_application_is_refused_and_stays_as_it_is(tmp_path):
    path = tmp_path / "mlflow.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE experiments (name)")
        database.commit()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"another application \(tables experiments\)"):
        open_storage(search(storage=f"sqlite:///{path}"), "s", tmp_path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("of somebody\n" * 100)
    with pytest.raises(ResourceError, match="cannot be opened: file is not a database"):
        open_storage(search(storage=f"sqlite:///{path}"), "s", tmp_path)
    assert path.read_text() == "of somebody\n" * 100


@pytest.fixture
def places(tmp_path):
    """Two directories of sweeps beside a database."""
    directories = tmp_path / "one", tmp_path / "two"
    for place in directories:
        place.mkdir()
    return *directories, f"sqlite:///{tmp_path}/studies.db"


def test_a_database_keeps_two_sweeps_apart(places):
    first, two, url = places
    open_storage(search(storage=url), "one", first).add_trial(optuna.trial.create_trial(value=1.0))
    assert open_storage(search(storage=url), "two", two).trials == []
    assert len(open_storage(search(storage=url), "one", first).trials) == 1
    assert set(optuna.get_all_study_names(url)) == {"one", "two"}


def test_two_sweeps_of_one_name_in_one_database_are_refused(places):
    first, two, url = places
    open_storage(search(storage=url), "s", first)
    with pytest.raises(ConfigError, match=f"of the sweep in\n    there: {first}"):
        open_storage(search(storage=url), "s", two)
    with pytest.raises(ConfigError, match="with another space"):
        open_storage(search(storage=url, mode="min"), "s", first)
    shutil.move(first, two / "moved")  # a sweep goes on wherever it was moved to
    assert open_storage(search(storage=url), "s", two / "moved").trials == []
