"""``road plan`` and ``--dry-run`` print the same plan, for people and for programs."""

from __future__ import annotations

import json
import shlex

from road_ray.cli.plan import _epochs, _phases, _time, duration, format_comparison


def test_a_plan_is_told_and_a_dry_run_is_a_plan(road, sentiment, flags, tmp_path):
    line = [*flags(sentiment), "--run-dir", tmp_path / "run"]
    result = road("plan", "finetune", *line)
    assert result.code == 0
    for word in (
        "steps ",
        " rows",
        "parameters",
        "a checkpoint",
        " epochs of 150)",
        "a worker needs",
    ):
        assert word in result.out
    assert " for all" in result.out
    command = shlex.join(["road", "finetune", *map(str, line)])
    assert result.out.endswith(f"next: {command}\n")
    assert road("plan", "finetune", *line, "--seed", "3", "--json").code == 0
    dry = road("finetune", *line, "--dry-run", "--json")
    assert dry.code == 0
    assert json.loads(dry.out)["steps"] == 6
    assert not (tmp_path / "run").exists()


def test_what_has_no_training_has_no_plan(road):
    result = road("plan", "evaluate")
    assert result.code == 2
    assert "allowed: pretrain" in result.err


def test_phases_are_told_where_there_are_several():
    first = {"steps": 900, "max_length_tokens": 128, "batch_size": 256}
    phases = [first | {"measured_step_seconds": 0.5}]
    assert _phases(phases) == []
    phases += [{"steps": 100, "max_length_tokens": 512, "batch_size": 256}]
    phases[1]["measured_step_seconds"] = 2
    assert _phases(phases) == [
        "phases      900 steps of 256 rows of 128 tokens, 0.500 s each; "
        "then 100 steps of 256 rows of 512 tokens, 2.000 s each"
    ]


def test_a_busy_machine_gives_a_range():
    plan = {"measured_step_range": (1.0, 1.2), "measured_step_seconds": 1.1, "hours": 1.1}
    plan["measured_data_seconds"] = 0.0
    assert _time(plan).startswith("1.100 s a step measured here on three steps")
    assert _time(plan).endswith("; 1.10 h for all")
    plan |= {"measured_step_range": (1.1, 11.0), "measured_step_seconds": 2.2, "hours": 2.2}
    assert _time(plan).startswith("1.100 to 11.000 s a step measured here")
    assert _time(plan).endswith("; 1.10 h to 11.00 h for all, as this machine is busy")


def test_epochs_are_told_of_one_data_set():
    assert _epochs({"rows": 320_000, "rows_per_epoch": 533}) == " (600 epochs of 533)"
    assert _epochs({"rows": 75, "rows_per_epoch": 150}) == " (0.5 epochs of 150)"
    assert _epochs({"rows": 75, "rows_per_epoch": None}) == ""


def test_a_duration_has_the_unit_that_suits_it():
    assert [duration(seconds / 3600) for seconds in (1.23, 90, 5400)] == [
        "1.2 s",
        "1.5 min",
        "1.50 h",
    ]


def test_a_short_comparison_has_seconds_where_hours_are_none():
    row = {"arm": "no KD", "seed": 1, "steps": 6, "tokens": 900, "seconds": 4, "finished": False}
    estimate = {"rows": [row], "runs": 1, "core_hours": 0.00111, "hours": 0.00111}
    text = format_comparison(estimate | {"max_concurrent": 2})
    assert "1 of these are left to run: 0.00111 core-hours, about 4.0 s with 2 at a time" in text
