"""Sweeps from their study and from their trials' directories."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from road_ray.errors import DataError
from road_ray.reporting.records.sweep_record import Sweep, Trial, is_sweep, read_sweep


def test_a_sweep_is_read(sweep_directory):
    sweep = read_sweep(sweep_directory)
    assert (sweep.name, sweep.metrics, sweep.larger) == ("weighted", ("eval/squad_v2/f1",), (True,))
    assert len(sweep.trials) == 12
    assert len(sweep.complete) == 11
    assert sweep.trials[-1].state == "failed"
    assert sweep.logs == {"distillation.temperature"}
    assert [trial.params["weighting.wrong"] for trial in sweep.best] == [0.75]
    assert next(iter(sweep.trials[0].curve)) == (10.0, pytest.approx(51.1))


def test_the_front_is_what_no_other_beats(tmp_path):
    values = [(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (0.5, 1.0)]
    trials = [Trial(n, "complete", {}, value) for n, value in enumerate(values)]
    sweep = Sweep("s", tmp_path, ("quality", "cost"), (True, False), trials)
    assert [trial.number for trial in sweep.best] == [0, 1]


def test_a_study_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "study.journal").write_text("")
    assert is_sweep(tmp_path)
    with pytest.raises(DataError, match="holds no study"):
        read_sweep(tmp_path)


def test_secrets_of_a_storage_stay_out(tmp_path):
    settings = {"storage": "nosuch://me:very-secret@host/db", "space": {}}
    (tmp_path / "sweep.resolved.yaml").write_text(json.dumps(settings))
    with pytest.raises(DataError) as error:
        read_sweep(tmp_path)
    assert "very-secret" not in str(error.value)


def test_reading_a_sweep_neither_makes_nor_changes_a_database_that_it_names(tmp_path):
    foreign = tmp_path / "mlflow.db"
    with contextlib.closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE experiments (name)")
        database.commit()
    before = foreign.read_bytes()
    for url, why in (
        (f"sqlite:///{foreign}", "another application"),
        (f"sqlite:///{tmp_path}/new.db", "no file"),
        ("mssql+pyodbc://me@h/d?driver=/tmp/x.so", "no URL"),
    ):
        settings = {"storage": url, "space": {}}
        (tmp_path / "sweep.resolved.yaml").write_text(json.dumps(settings))
        with pytest.raises(DataError, match=why):
            read_sweep(tmp_path)
    assert foreign.read_bytes() == before
    assert not (tmp_path / "new.db").exists()
