"""``road runs``: lists, shows and compares what run directories hold."""

from __future__ import annotations

import json


def test_runs_of_a_folder_are_listed(road, pretrained):
    said = road("runs", "list", pretrained.directory.parent, "--json")
    assert said.code == 0
    rows = {row["name"]: row for row in json.loads(said.out)}
    assert rows["pretrained"]["verb"] == "pretrain"
    assert rows["pretrained"]["state"] == "finished"
    assert rows["pretrained"]["step"] == 6
    assert "pretrained" in road("runs", "list", pretrained.directory.parent).out


def test_one_run_is_shown(road, pretrained):
    said = road("runs", "show", pretrained.directory)
    assert "train/generator" in said.out
    assert "generator.scale" in said.out
    beta2 = next(line for line in said.out.splitlines() if line.startswith("optimizer.beta2"))
    assert beta2.split()[1] == "0.999"
    told = json.loads(road("runs", "show", pretrained.directory, "--json").out)
    assert told["config"]["training.steps"] == 6


def test_two_runs_differ_in_these_keys(road, pretrained, asked):
    rows = json.loads(road("runs", "diff", pretrained.directory, asked.directory, "--json").out)
    keys = {row["key"] for row in rows}
    assert "data.dataset" in keys
    assert "console" not in keys


def test_what_is_no_run_is_told(road, tmp_path):
    assert road("runs", "show", tmp_path).code == 2
    assert "no such directory" in road("runs", "list", tmp_path / "nowhere").err
