"""Pre-training from the command line: shards once, figures of the last row, and a user's corpus."""

from __future__ import annotations

import json
import shutil

import pytest

from road_ray.training.monitoring.metrics_journal import read_rows


@pytest.fixture
def attempt(road, flags, pretraining, tmp_path):
    def run(*arguments: object, **changed: object):
        settings = {key.replace("__", "."): value for key, value in changed.items()}
        overrides = pretraining | {"data.shards": tmp_path / "shards"} | settings
        overrides = {"run_dir": tmp_path / "run"} | overrides
        return road("pretrain", *flags(overrides), *arguments)

    return run


def test_the_figures_are_those_of_the_last_row(pretrained):
    rows = read_rows(pretrained.directory / "metrics.jsonl")
    assert [row["step"] for row in rows] == [2, 4, 6]
    assert {"train/generator", "train/discriminator", "train/lr"} <= set(pretrained.metrics)
    assert pretrained.metrics == {
        k: v for k, v in rows[-1].items() if k not in ("step",) and v is not None
    }
    assert json.loads((pretrained.directory / "metrics.json").read_text()) == pretrained.metrics


@pytest.mark.parametrize("journal", [None, '{"step": 1, "train/generator": 9.5}\n'])
def test_a_run_killed_after_its_last_step_has_the_figures_of_its_checkpoint(
    attempt, tmp_path, journal
):
    assert attempt(training__steps=1).code == 0
    run = tmp_path / "run"
    figures = (run / "metrics.json").read_text()
    (run / "metrics.json").unlink()
    shutil.rmtree(run / "hf")
    (run / "metrics.jsonl").unlink()
    if journal is not None:
        (run / "metrics.jsonl").write_text(journal)
    assert attempt(training__steps=1).code == 0
    assert (run / "metrics.json").read_text() == figures


def test_another_text_of_the_same_name_and_size_is_another_corpus(attempt, tmp_path):
    for number, text in enumerate(("some words here\n", "here some words\n")):
        (tmp_path / "a.txt").write_text(text)
        settings = {"data__corpus": tmp_path / "a.txt", "training__steps": 1}
        assert attempt(run_dir=tmp_path / str(number), **settings).code == 0
    assert len([p for p in (tmp_path / "shards").iterdir() if "tokenizer" not in p.name]) == 2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("encoder__hidden_size", 64, "has another size than `encoder`"),
        ("data__max_length_tokens", 256, "= 256 exceeds the position table"),
        ("training__steps", "null", "training.steps is not given"),
        ("encoder__heads", 5, "encoder.heads = 5"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(attempt, pretrained, key, value, message):
    attempt(init=pretrained.directory, **{key: value}).refused(2, message)


def test_a_corpus_that_is_not_there_is_told(attempt, monkeypatch):
    monkeypatch.delenv("ROAD_DATA", raising=False)
    attempt(data__corpus="no/such.txt").refused(3, "no/such.txt")
    attempt(data__corpus="no/such.txt", data__root="hub").refused(2, "data.root")


@pytest.mark.parametrize("key", ["init", "generator__init"])
def test_a_model_that_is_not_there_is_told_before_a_corpus_is_built(attempt, tmp_path, key):
    attempt(**{key: tmp_path / "nothing", "data__shards": tmp_path / "shards"}).refused(
        2, f"{key.replace('__', '.')} = {tmp_path / 'nothing'}: no such directory"
    )
    assert not (tmp_path / "shards").exists()
