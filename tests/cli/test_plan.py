"""``road plan`` and ``--dry-run`` print the same plan, for people and for programs."""

import json
import shlex

from road_ray.cli.plan import format_comparison, format_plan
from road_ray.reporting.text_tables import duration


def test_a_plan_is_told_and_a_dry_run_is_a_plan(road, sentiment, flags, tmp_path):
    line = [*flags(sentiment), "--run-dir", tmp_path / "run"]
    result = road("plan", "finetune", *line).good()
    for word in ("steps", "rows", "epochs", "parameters", "memory of a worker", "all steps"):
        assert word in result.out
    command = shlex.join(["road", "finetune", *map(str, line)])
    assert result.out.endswith(f"next: {command}\n")
    assert road("plan", "finetune", *line, "--seed", "3", "--json").code == 0
    dry = road("finetune", *line, "--dry-run", "--json").good()
    assert json.loads(dry.out)["steps"] == 6
    assert not (tmp_path / "run").exists()


def test_a_plan_has_ranges_epochs_and_phases_and_a_comparison_its_duration():
    phase = {"steps": 900, "max_length_tokens": 128, "batch_size": 256}
    plan = {"runs": 1, "steps": 1000, "rows": 320_000, "rows_per_epoch": 533, "tokens": 9}
    plan |= {"parameters": 8, "disk_bytes": {"checkpoint": 1, "at_most": 2, "free": 3}}
    plan |= {"memory_bytes": {"parameters": 1024, "gradients": 512, "available": 0}}
    plan |= {"measured_step_seconds": 2.2, "measured_step_range": (1.1, 11.0), "hours": 2.2}
    plan |= {"phases": [phase | {"measured_step_seconds": 0.5}] * 2, "measured_data_seconds": 0.0}
    lines = dict(line.split("  ", 1) for line in format_plan(plan).splitlines()[2:])
    values = {name: value.strip() for name, value in lines.items()}
    assert values["memory of a worker"] == "1.5 kB (parameters 1.0 kB, gradients 512 bytes)"
    assert values["memory here"] == "no GPU"
    assert values["epochs"] == "600"
    assert values["a step"].startswith("1.100 to 11.000 s")
    assert values["all steps"] == "66.0 min to 11.0 h"
    assert values["phase 2"] == "900 steps of 256 rows of 128 tokens, 0.500 s each"
    row = {"arm": "no KD", "seed": 1, "steps": 6, "seconds": 4, "finished": False}
    text = format_comparison({"rows": [row], "runs": 1, "hours": 0.00111, "max_concurrent": 2})
    assert "1 of these are left to run: about 4.0 s with 2 at a time" in text
    assert duration(150) == "2.5 min"
