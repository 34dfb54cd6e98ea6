"""A clock that jumps by an hour changes no figure and ends no wait: time-outs are monotonic."""

import ast
import itertools
import json
import time
from pathlib import Path

import pytest

import road_ray as rr

PACKAGE = Path(rr.__file__).parent
HOUR = 3600.0
# Wall-clock time is for people, for stamps and for what is a day old.
WALL_CLOCK = {
    "distillation/stored_ensemble.py",  # days since answers were used
    "distributed/train/preemption.py",  # the deadline of a cloud, bounded
    "inference/predict_file.py",  # an identity of standard input, which is never resumed
    "training/monitoring/metrics_journal.py",  # the stamp of an event
    "system/files.py",  # the age of what another host staged
    "training/monitoring/trackers.py",  # the stamp of a row
}


def test_only_these_modules_read_the_wall_clock():
    modules = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "time.ctime"),
            ):
                modules.add(path.relative_to(PACKAGE).as_posix())
    assert modules == WALL_CLOCK


@pytest.fixture
def jumping(monkeypatch):
    """``time.time`` an hour ahead, an hour behind, and right, in turns."""
    real, off = time.time, itertools.cycle((HOUR, -HOUR, 0.0))
    monkeypatch.setattr(time, "time", lambda: real() + next(off))
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))


def test_a_run_on_a_jumping_clock_stops_goes_on_and_ends_in_the_same_figures(
    sentiment, teachers, tmp_path, jumping, monkeypatch
):
    settings = {"distillation.teachers": [str(teachers.directory / "teachers.json")]}
    given = sentiment | settings | {"distillation.host": "process", "data.max_judged_rows": 32}
    given |= {"distillation.store": str(tmp_path / "store"), "training.save_every_steps": 2}
    jumped = rr.distill(overrides=given | {"run_dir": str(tmp_path / "jumped")})
    monkeypatch.undo()
    given["distillation.store"] = str(tmp_path / "other")
    calm = rr.distill(overrides=given | {"run_dir": str(tmp_path / "calm")})
    judged = [name for name in calm.metrics if name.startswith(("eval/", "train/"))]
    assert judged
    assert {n: jumped.metrics[n] for n in judged} == {n: calm.metrics[n] for n in judged}
    rows = [json.loads(line) for line in (tmp_path / "jumped" / "metrics.jsonl").open()]
    assert all(0 <= row.get("time/step_seconds", 0) < 600 for row in rows)
