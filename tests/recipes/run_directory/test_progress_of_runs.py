"""Progress of runs in other processes is read from their journals."""

from __future__ import annotations

import json
import time

from road_ray.recipes.run_directory import progress_of_runs as run_progress
from road_ray.recipes.run_directory.progress_of_runs import show_progress, steps_done
from road_ray.training.monitoring.console_progress import Quiet


def written(directory, *steps):
    directory.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"step": step}) + "\n" for step in steps)
    (directory / "metrics.jsonl").write_text(lines)


def test_steps_are_those_of_the_last_row(tmp_path):
    assert steps_done(tmp_path / "none", 80) == 0
    written(tmp_path / "a", 4, 8)
    assert steps_done(tmp_path / "a", 80) == 8
    (tmp_path / "a" / "metrics.jsonl").write_text('{"step": 12}\n{"ste')
    assert steps_done(tmp_path / "a", 80) == 12
    (tmp_path / "a" / "metrics.json").write_text("{}")
    assert steps_done(tmp_path / "a", 80) == 80


class Seen(Quiet):
    """Keeps the parts that are shown."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int, int]] = []

    def part(self, title: str, done: int, total: int) -> None:
        self.parts.append((title, done, total))


def test_all_runs_together_are_shown_and_then_their_evaluation(tmp_path, monkeypatch):
    monkeypatch.setattr(run_progress, "_POLL_SECONDS", 0.01)
    console, steps = Seen(), {tmp_path / "a": 80, tmp_path / "b": 80}
    written(tmp_path / "a", 40)
    written(tmp_path / "b", 8)
    with show_progress("teachers", steps, console):
        await_part(console, ("teachers", 48, 160))
        written(tmp_path / "a", 80)
        written(tmp_path / "b", 80)
        (tmp_path / "a" / "metrics.json").write_text("{}")
        await_part(console, ("teachers: evaluating", 1, 2))


def await_part(console, part):
    """Wait until the part is shown."""
    end = time.monotonic() + 20
    while part not in console.parts:
        assert time.monotonic() < end, console.parts
        time.sleep(0.01)
