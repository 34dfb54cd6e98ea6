"""Progress of a sweep: a table on a terminal, lines elsewhere, nothing if quiet."""

from __future__ import annotations

import io

from rich.console import Console

from road_ray.config import load
from road_ray.distributed.tune.trial_record import Record, Report
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.sweep_progress import SweepProgress, show_progress

BASE = {"verb": "finetune", "metric": "m", "name": "mine", "trials": 30}


def config(**values):
    return load(SweepConfig, base=BASE | {"space": {"x.y": {"uniform": [0, 1]}}} | values)


def record(number, state="running", *values, reason=""):
    return Record(number, {"x.y": 0.5 + number}, state, values, reason=reason)


def test_the_table_has_what_runs_then_the_best():
    view = SweepProgress(config())
    for number in range(25):
        view.changed(record(number, "complete", float(number)))
    view.changed(record(25))
    view.reported(25, Report(7, 35.0, 0.123))
    text = io.StringIO()
    Console(file=text, width=100).print(view.table())
    lines = text.getvalue().splitlines()
    assert view.headline() == "mine: 25 of 30 trials, 1 running, best 24 (trial 24)"
    rows = [line.split() for line in lines]
    first = rows.index(["25", "running", "35%", "0.123", "25.5"])
    assert rows[first + 1][:3] == ["24", "complete", "24"]
    assert "and 6 more" in lines[-1]


def test_lines_say_what_changed_once(capsys):
    with show_progress(config(console="plain")) as watch:
        watch.changed(record(0))
        watch.changed(record(0))
        watch.reported(0, Report(1, 10.0, 0.5))
        watch.tick()
        watch.changed(record(0, "failed", reason="diverged: step 3\nmore"))
        watch.changed(record(1, "complete", 0.25))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "trial 0 running  x.y=0.5"
    assert lines[1] == "trial 0 failed (diverged: step 3)  x.y=0.5; mine: 1 of 30 trials, 1 failed"
    assert "best 0.25 (trial 1)" in lines[2]
    assert len(lines) == 3


def test_quiet_is_quiet_and_rich_ends_with_the_table(capsys):
    for kind in ("quiet", "rich"):
        with show_progress(config(console=kind)) as watch:
            watch.changed(record(0, "complete", 0.5))
            watch.tick()
        output = capsys.readouterr().err
        assert ("complete" in output) == (kind == "rich")
