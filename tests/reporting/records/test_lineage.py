"""Lineage is followed as far as directories exist."""

from __future__ import annotations

import json

from road_ray.reporting.pages.run_page import run_page
from road_ray.reporting.records.lineage import ancestors, describe_model
from road_ray.reporting.records.run_record import read_run


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
