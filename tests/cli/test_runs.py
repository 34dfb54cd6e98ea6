"""``road runs`` and ``road report``: lists, shows and compares what run directories hold. ``road
plan`` and ``--dry-run`` print the same plan, for people and for programs.
"""

import json
import os
import re
import shlex
import shutil

import pytest

from road_ray.cli.runs import format_comparison, format_plan


def test_runs_of_a_folder_are_listed_one_is_shown_and_what_is_none_is_told(road, pretrained):
    result = road("runs", "list", pretrained.directory.parent, "--json").good()
    rows = {row["name"]: row for row in json.loads(result.out)}
    assert rows["pretrained"]["verb"] == "pretrain"
    assert rows["pretrained"]["state"] == "finished"
    assert rows["pretrained"]["step"] == 6
    shown = road("runs", "show", pretrained.directory).out
    assert {"train/generator", "generator.scale"} <= {*shown.split()}
    assert re.search(r"(?m)^optimizer\.betas .*0\.999", shown)
    output = json.loads(road("runs", "show", pretrained.directory, "--json").out)
    assert output["config"]["training.steps"] == 6
    assert road("runs", "show", pretrained.directory.parent).code == 2
    assert "no such directory" in road("runs", "list", pretrained.directory / "nowhere").err


def test_the_listed_figure_is_the_one_that_papers_report_also_of_an_evaluation(road, tmp_path):
    figures = {"time/total": 1.0, "eval/tags/entity_precision": 90.0, "eval/tags/entity_f1": 80.0}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(figures))
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    evaluation = tmp_path / "evaluate" / "m-1"
    evaluation.mkdir(parents=True)
    (evaluation / "config.resolved.yaml").write_text("tune_threshold_on: null")
    (evaluation / "metrics.json").write_text('{"eval/sst2/accuracy": 70.0}')
    listed = json.loads(road("runs", "list", tmp_path, "--json").out)
    rows = {row["name"]: (row["verb"], row["state"], row["value"]) for row in listed}
    assert rows["evaluate/m-1"] == ("evaluate", "finished", 70.0)
    assert ("eval/tags/entity_f1", 80.0) in [(row["metric"], row["value"]) for row in listed]
    assert len(listed) == 2


def test_two_runs_differ_in_these_keys_also_two_of_one_name(road, pretrained, span_run, tmp_path):
    rows = json.loads(road("runs", "diff", pretrained.directory, span_run.directory, "--json").out)
    keys = {row["key"] for row in rows}
    assert "data.dataset" in keys
    assert "console" not in keys
    assert {row["what"] for row in rows} == {"key", "metric"}
    names = {pretrained.directory.name, span_run.directory.name}
    assert all({"what", "key"} | names == row.keys() for row in rows)
    for place, seed in (("a", 1), ("b", 2)):
        (tmp_path / place / "seed-0").mkdir(parents=True)
        (tmp_path / place / "seed-0" / "config.resolved.yaml").write_text(f"seed: {seed}\n")
        (tmp_path / place / "seed-0" / "metrics.jsonl").touch()
    places = [str(tmp_path / place / "seed-0") for place in "ab"]
    (row,) = json.loads(road("runs", "diff", *places, "--json").out)
    assert row == {"what": "key", "key": "seed", places[0]: 1, places[1]: 2}


ODD = [b"", b"null", b"[]", b"\xff\xfe", b'{"step": [1]}\n{', b"data: 5\n", b"a: &a [*a]\n"]
FILES = [
    *("config.resolved.yaml", "metrics.jsonl", "metrics.json", "events.jsonl"),
    *("environment.json", "hf/road_ray.json", "table.json"),
]


@pytest.mark.parametrize("name", FILES)
def test_odd_files_of_a_run_are_left_out_or_named(road, pretrained, tmp_path, name):
    run, other = tmp_path / "runs" / "odd", tmp_path / "other"
    copied = shutil.ignore_patterns("checkpoints", "*.safetensors")
    for place in (run, other):
        shutil.copytree(pretrained.directory, place, ignore=copied)
        (place / "config.resolved.yaml").write_text("seed: 1\ntraining:\n  steps: 6\n")
    path = run / name
    # Too deep for Python's stack; YAML's parser takes seconds for as much as that of JSON needs.
    deep = b"[" * (500 if name.endswith(".yaml") else 2000)
    for content in [*ODD, deep, None]:
        path.unlink(missing_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        for words in (("runs", "list", run.parent), ("runs", "show", run)):
            result = road(*words)  # fails on a traceback
            assert result.code in (0, 2, 3, 4), (content, result.err)
        assert road("runs", "diff", run, other).code == 0
        if content in (b"[]", None):  # a page takes longer
            assert road("report", run).code in (0, 2, 3, 4)


def test_a_run_whose_name_breaks_lines_or_turns_text_is_listed_on_one_line(
    road, pretrained, tmp_path
):
    names = ["a\nverb  evil\u202e", "b\r\x1b[31m", os.fsdecode(b"caf\xe9"), "\u2066c\ttab"]
    for name in names:
        shutil.copytree(
            pretrained.directory, tmp_path / name, ignore=shutil.ignore_patterns("checkpoints")
        )
    result = road("runs", "list", tmp_path).good()
    assert len(result.out.splitlines()) == 2 + len(names)
    for shown in (r"a\nverb  evil\u202e", r"b\r\x1b[31m", r"caf\udce9", r"\u2066c\ttab"):
        assert shown in result.out
    listed = json.loads(road("runs", "list", tmp_path, "--json").out)
    assert {row["name"] for row in listed} == {*names}
    assert road("report", *map(tmp_path.joinpath, names), "--output", tmp_path / "x").code == 0
    assert not set("\u202e\u2066\x1b") & set((tmp_path / "x").read_text(encoding="utf-8"))


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


def test_a_plan_has_ranges_and_epochs_and_a_comparison_its_duration():
    plan = {"runs": 1, "steps": 1000, "rows": 320_000, "rows_per_epoch": 533, "tokens": 9}
    plan |= {"parameters": 8, "disk_bytes": {"checkpoint": 1, "at_most": 2, "free": 3}}
    plan |= {"memory_bytes": {"parameters": 1024, "gradients": 512, "available": 0}}
    plan |= {"measured_step_seconds": 2.2, "measured_step_range": (1.1, 11.0), "hours": 2.2}
    plan |= {"measured_data_seconds": 0.0}
    lines = dict(line.split("  ", 1) for line in format_plan(plan).splitlines()[2:])
    values = {name: value.strip() for name, value in lines.items()}
    assert values["memory of a worker"] == "1.5 kB (parameters 1.0 kB, gradients 512 bytes)"
    assert values["memory here"] == "no GPU"
    assert values["epochs"] == "600"
    assert values["a step"].startswith("1.100 to 11.000 s")
    assert values["all steps"] == "66.0 min to 11.0 h"
    row = {"arm": "no KD", "seed": 1, "finished": False, "steps": 6000, "seconds": 150.0}
    rows = [row, row | {"finished": True}]
    text = format_comparison({"rows": rows, "runs": 1, "hours": 0.00111, "max_concurrent": 2})
    assert "1 of these are left to run: about 4.0 s with 2 at a time" in text
    assert [line.split()[3:] for line in text.splitlines()[2:4]] == [
        ["6,000", "2.5", "min"],
        ["6,000", "finished"],
    ]
