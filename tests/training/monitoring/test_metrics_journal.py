"""Rows, events, final figures, resumption and failing trackers."""

import json
import math
import re
from functools import partial

import numpy as np
import pytest
import torch

from road_ray.errors import ResourceError
from road_ray.training.monitoring.metrics_journal import Journal, read_rows
from road_ray.training.monitoring.trackers import Tracker


def quiet(directory, **options):
    return Journal(directory, console="quiet", **options)


def rows(directory, name="metrics.jsonl"):
    return [json.loads(line) for line in (directory / name).read_text().splitlines()]


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_row_stands_in_the_file_as_soon_as_it_is_written_with_numbers_of_any_library(tmp_path):
    """Those that JSON does not have become null."""
    with quiet(tmp_path / "run") as journal:
        journal.write(1, {"a": torch.tensor(0.5), "b": np.float32(0.25), "c": np.int64(3)})
        journal.write(2, {"a": math.nan, "b": torch.tensor(math.inf), "c": -math.inf})
        assert rows(tmp_path / "run") == [
            {"step": 1, "a": 0.5, "b": 0.25, "c": 3.0},
            {"step": 2, "a": None, "b": None, "c": None},
        ]
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert not re.search("NaN|Infinity", text)


def test_an_event_has_time_and_kind_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "c4n4ry-0123456789")
    failed = "no answer of http://x/?token=other-1 c4n4ry-0123456789"
    with quiet(tmp_path) as journal:
        journal.event("tracker_failed", path=tmp_path, loss=math.nan, error=failed)
    (event,) = rows(tmp_path, "events.jsonl")
    assert event.pop("time").endswith("+00:00")
    assert event.pop("error") == "no answer of http://x/?token=*** ***"
    assert event == {"kind": "tracker_failed", "path": str(tmp_path), "loss": None}


def test_rows_beyond_the_resumed_step_are_dropped_and_written_once(tmp_path):
    with quiet(tmp_path) as journal:
        for step in range(1, 8):
            journal.write(step, {"a": step})
    with quiet(tmp_path) as journal:
        journal.truncate_after(4)
        journal.write(5, {"a": 50})
        journal.truncate_after(5)
        journal.write(6, {"a": 60})
    assert [row["a"] for row in rows(tmp_path)] == [1, 2, 3, 4, 50, 60]
    assert names(tmp_path) == ["metrics.jsonl"]


@pytest.mark.parametrize("tail", ['{"step": 3, "a"', "{", "\0\0\0\0"])
def test_a_torn_last_line_is_forgotten(tmp_path, tail):
    path = tmp_path / "metrics.jsonl"
    whole = '{"step": 1}\n{"step": 2}\n'
    path.write_text(whole + tail)
    assert read_rows(path) == [{"step": 1}, {"step": 2}]
    with quiet(tmp_path) as journal:
        journal.write(3, {"a": 1})
    assert rows(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "a": 1}]
    path.write_text(whole + tail)
    with quiet(tmp_path) as journal:
        journal.truncate_after(2)
    assert path.read_text() == whole


def test_a_worker_that_does_not_lead_writes_nothing(tmp_path, capsys):
    with Journal(tmp_path, console="plain", enabled=False) as journal:
        journal.write(1, {"train/a": 1.0})
        journal.event("fault")
        journal.finish({"a": 1.0})
        journal.truncate_after(0)
    assert names(tmp_path) == []
    assert capsys.readouterr().err == ""


def test_a_failing_tracker_is_noted_once_and_no_row_is_lost(tmp_path, caplog):
    told, closed = {"bad": [], "good": []}, []

    def start(kind):
        def log(step, metrics):
            if (kind, step) == ("bad", 2):
                raise ConnectionError("tracker is down")
            told[kind].append((step, dict(metrics)))

        if kind == "none":
            raise ConnectionError("no server")
        return Tracker(log, lambda failed: closed.append((kind, failed)))

    trackers = {kind: partial(start, kind) for kind in ("none", "bad", "good")}
    with quiet(tmp_path, trackers=trackers) as journal:
        for step in range(1, 5):
            journal.write(step, {"a": step})
    assert told["bad"] == [(1, {"a": 1})]
    assert told["good"] == [(step, {"a": step}) for step in range(1, 5)]
    assert len(rows(tmp_path)) == 4
    events = [(row["tracker"], row["error"]) for row in rows(tmp_path, "events.jsonl")]
    assert events == [("none", "no server"), ("bad", "tracker is down")]
    assert caplog.text.count("tracker is down") == 1
    assert closed == [("good", False)]


def test_a_tracker_may_end_the_run_and_hears_that_it_failed(tmp_path):
    def stop(step, metrics):
        raise SystemExit(0)

    closed, trackers = [], {"a": lambda: Tracker(stop, closed.append)}
    with pytest.raises(SystemExit), quiet(tmp_path, trackers=trackers) as log:
        log.write(2, {"a": 0.5})
    assert [row["step"] for row in rows(tmp_path)] == [2]
    assert closed == [True]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ResourceError, match=r"(?s)metrics\.jsonl: cannot be written.*kept:"):
        quiet(tmp_path / "run").write(1, {"a": 1})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        *((line, "not a JSON object") for line in ("null", "[]", "broken", "[" * 100_000)),
        *((line, "is not a whole number") for line in ("{}", '{"step": "1"}', '{"step": 1.5}')),
        ('{"step": 2, "a": "b"}', "is not a number"),
    ],
)
def test_a_damaged_line_is_named_and_stays(tmp_path, line, problem):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "a": null}}\n{line}\n{{"step": 2}}\n')
    with pytest.raises(ResourceError, match=rf"metrics\.jsonl:2: .*{problem}"):
        quiet(tmp_path).truncate_after(1)
    assert line in path.read_text()
