"""A trial always ends with its record as the last report."""

import os
from dataclasses import replace

import pytest
from ray import tune

from road_ray.config import load
from road_ray.data.load_split import resolve_root
from road_ray.distributed.connection import environment_for_workers
from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import HUNG, perform
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.errors import DivergedError
from tests.runs import python

CONFIG = {"number": 2, "params": {"x": 1}}


@pytest.fixture
def reports(monkeypatch):
    """What Tune is told."""
    calls = []
    monkeypatch.setattr(tune, "report", calls.append)
    return calls


def performed(directory, run, environment=(".", {}), **more):
    base = {"metric": "m", "space": {"x": {"choice": [1]}}}
    perform(CONFIG, run, load(SearchConfig, base=base | more), directory, environment)


def test_a_trial_has_the_variables_of_the_command(tmp_path, monkeypatch, reports):
    monkeypatch.setenv("ROAD_DATA", str(tmp_path))
    seen = []
    environment = environment_for_workers()
    monkeypatch.delenv("ROAD_DATA")  # as on a machine of a cluster that was started without it
    monkeypatch.chdir("/")
    performed(
        tmp_path, lambda _, record, __: seen.append(resolve_root(None)) or record, environment
    )
    assert seen == [tmp_path]
    assert "ROAD_DATA" not in os.environ


def spend(directory, number):
    """As if the trial's seeds, and earlier starts of it, had taken 50 s."""
    for seed, text in enumerate(("20.0", "30.0 2.0")):
        path = one_trial.trial_directory(directory, number) / f"seed-{seed}" / one_trial.SPENT
        path.parent.mkdir(parents=True)
        path.write_text(text)


def test_reports_and_the_record_go_to_tune(tmp_path, reports):
    def run(place, record, on_report):
        on_report(1, 2, 0.5)
        on_report(2, 2, float("nan"))
        return replace(record, values=(0.75,), deviation=(None,), figures={"m": 0.75})

    spend(tmp_path, 2)
    performed(tmp_path, run, trial_timeout_seconds=600)
    assert not (one_trial.trial_directory(tmp_path, 2) / HUNG).exists()
    assert reports[:-1] == [{"step": 1, "total": 2, "m": 0.5}]
    assert reports[-1]["m"] == 0.75
    record = reports[-1]["record"]
    assert (record.state, record.values) == ("complete", (0.75,))
    assert record.seconds == 50.0
    assert (record.params, record.deviation, record.figures) == ({"x": 1}, (None,), {"m": 0.75})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DivergedError("step 3: loss nan"), "diverged: step 3: loss nan"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
    ],
)
def test_an_error_is_a_failed_trial_with_its_reason(tmp_path, reports, error, reason):
    def run(place, record, on_report):
        raise error

    spend(tmp_path, 2)
    performed(tmp_path, run)
    record = reports[-1]["record"]
    assert record.seconds == 50.0  # its budget counts it
    assert reports[-1].keys() == {"record"}
    assert (record.state, record.reason, record.values) == ("failed", reason, ())
    assert "Traceback" in (one_trial.trial_directory(tmp_path, 2) / "error.txt").read_text()


def test_a_failure_that_cannot_be_written_is_told_all_the_same(tmp_path, reports):
    (tmp_path / "trials").write_text("")
    performed(tmp_path, lambda *_: 1 / 0)
    assert reports[-1]["record"].reason == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_never_wins(tmp_path, reports, value):
    performed(tmp_path, lambda place, record, _: replace(record, values=(value,)))
    record = reports[-1]["record"]
    assert (record.state, record.values) == ("failed", ())
    assert str(value) in record.reason


@pytest.mark.parametrize("seconds", [0.2, None])  # the sweep may go on without a limit
def test_a_trial_that_hung_is_not_tried_again(tmp_path, reports, seconds):
    place = one_trial.trial_directory(tmp_path, 2)
    place.mkdir(parents=True)
    (place / HUNG).write_text("line 4")
    performed(tmp_path, None, trial_timeout_seconds=seconds)
    record = reports[-1]["record"]
    assert record.state == "failed"
    assert "did not end within trial_timeout_seconds" in record.reason


CODE = """
import time
from pathlib import Path
from tests.distributed.tune.test_trial_actor import performed
performed(Path({path!r}), lambda *_: time.sleep(100), trial_timeout_seconds=0.2)
"""


@pytest.mark.slow
def test_a_hanging_call_ends_the_process_and_says_where_it_stood(tmp_path):
    assert python(CODE.format(path=str(tmp_path))).returncode == 1
    assert "line 5" in (one_trial.trial_directory(tmp_path, 2) / HUNG).read_text()
