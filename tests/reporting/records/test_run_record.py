"""Run directories, damaged ones included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from road_ray.reporting.pages.run_page import run_page
from road_ray.reporting.records.run_record import (
    RunRecord,
    ancestors,
    describe_model,
    is_run,
    read_run,
    runs_below,
)


def test_a_run_is_read(run_directory):
    run = read_run(run_directory)
    assert (run.name, run.verb, run.finished, run.steps) == ("student-1", "distill", True, 8)
    assert run.seconds == 8.0
    assert run.settings["data.dataset"] == "squad_v2"
    assert run.series("train/squad_v2")[1] == (2.0, 2.0)
    assert run.last("train/squad_v2") == 0.5
    assert run.last("train/none") is None
    assert run.problems == ()


def test_damage_is_told_and_the_rest_read(run_directory):
    (run_directory / "metrics.json").write_text("{")
    (run_directory / "config.resolved.yaml").write_text("a: [")
    run = read_run(run_directory)
    assert len(run.problems) == 2
    assert "metrics.json is damaged" in " ".join(run.problems)
    assert run.steps == 8


def test_a_torn_last_row_is_left_out(run_directory):
    with (run_directory / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "tra')
    assert read_run(run_directory).steps == 8


def test_runs_are_found_below_a_folder(write_run, tmp_path):
    for name in ("a-1", "deep/b-1", "a-1/checkpoints/c"):
        if not (tmp_path / name).exists():
            write_run(tmp_path / name)
    assert [path.name for path in runs_below(tmp_path)] == ["a-1", "b-1"]
    assert is_run(tmp_path / "a-1")
    assert not is_run(tmp_path)


def write_config(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.resolved.yaml").write_text("seed: 0")
    return directory


def test_a_run_without_a_journal_is_found_unless_it_contains_runs(write_run, tmp_path):
    (write_config(tmp_path / "evaluate" / "hf-model-1") / "predictions" / "sst2").mkdir(
        parents=True
    )
    write_run(write_config(tmp_path / "teachers") / "teacher-0")
    write_config(write_config(tmp_path / "pairs") / "pair-0")
    write_config(write_config(tmp_path / "a" / "b" / "deep") / "c" / "d")  # too deep itself
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "metrics.json").write_text("{}")
    assert [str(path.relative_to(tmp_path)) for path in runs_below(tmp_path)] == [
        *("evaluate/hf-model-1", "pairs/pair-0", "teachers/teacher-0")
    ]
    assert runs_below(tmp_path, deepest=1) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", "null\n"),
        ("metrics.jsonl", '{"step": "one"}\n'),
        ("metrics.json", "[]"),
        ("environment.json", "null"),
    ],
)
def test_a_record_of_the_wrong_kind_is_told(run_directory, name, content):
    (run_directory / name).write_text(content)
    (problem,) = read_run(run_directory).problems
    assert problem.startswith(name)
    assert "left out" in problem


@pytest.mark.parametrize(
    "verb",
    [
        *("pretrain", "multitask", "finetune", "teachers"),
        *("distill", "evaluate", "reproduce", "demo"),
    ],
)
def test_the_verb_follows_from_the_configuration_not_from_who_started_the_run(verb):
    from road_ray.config import to_dict
    from road_ray.verbs import VERBS

    config = to_dict(VERBS[verb].config())
    run = RunRecord(Path("r"), config, environment={"command": ["road", "sweep"]})
    assert run.verb == verb
    assert RunRecord(Path("r"), environment={"command": ["road", verb]}).verb == verb


def write_record(directory, **facts):
    (directory / "hf").mkdir(parents=True)
    (directory / "hf" / "road_ray.json").write_text(json.dumps(facts))


def test_it_goes_back_to_the_corpus_and_names_teachers(run_directory, tmp_path):
    corpus = {"tokens": 1200, "source": "wiki.txt, 5 bytes"}
    write_record(tmp_path / "pre", objective="electra", corpus=corpus, init="")
    write_record(tmp_path / "mtl", datasets=["mnli", "qqp"], seed=0, init=str(tmp_path / "pre"))
    teacher = {"directory": "gone/hf", "weights_sha256": "ab" * 32}
    write_record(
        run_directory, datasets=["squad_v2"], init=str(tmp_path / "mtl"), teachers=[teacher]
    )
    run = read_run(run_directory)
    assert [role for role, _, _ in ancestors(run)] == ["initialised from"] * 2 + ["teacher 0"]
    assert describe_model(run.model) == "distilled on squad_v2"
    assert [describe_model(facts) for _, _, facts in ancestors(run)] == [
        "trained on mnli, qqp, seed 0",
        "electra on 1,200 tokens of wiki.txt",
        "no details",
    ]
    (lineage,) = [s for s in run_page(run).sections if s.title == "Lineage"]
    assert lineage.blocks[0].rows[3][3] == "ab" * 6


def test_a_circle_ends(run_directory, tmp_path):
    write_record(tmp_path / "a", datasets=["x"], init=str(tmp_path / "a"))
    write_record(run_directory, init=str(tmp_path / "a"))
    assert len(ancestors(read_run(run_directory))) == 8


def test_what_is_gone_is_said_to_be():
    assert describe_model({}) == "not on this machine"
    assert describe_model({"found": "models/x"}) == "not made by road_ray"


def test_a_relative_name_counts_from_above_the_run_too(write_run, tmp_path, monkeypatch):
    write_record(tmp_path / "runs" / "mtl", datasets=["mnli"], init="runs/plain")
    (tmp_path / "runs" / "plain").mkdir()
    run = read_run(write_run(tmp_path / "runs" / "student", init="runs/mtl"))
    monkeypatch.chdir("/")
    assert [describe_model(facts) for _, _, facts in ancestors(run)] == [
        "trained on mnli",
        "not made by road_ray",
    ]
