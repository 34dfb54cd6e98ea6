"""Pre-training from the command line: shards once, figures of the last row, and a user's corpus."""

import json
import shutil
from itertools import count

import pytest

import road_ray as rr
from road_ray.data.corpus import build_corpus
from road_ray.errors import ResourceError
from road_ray.system.remote_files import Storage
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.runs import weights


def test_the_figures_are_those_of_the_last_row(pretrained):
    rows = read_rows(pretrained.directory / "metrics.jsonl")
    assert [row["step"] for row in rows] == [2, 4, 6]
    assert {"train/generator", "train/discriminator", "train/lr"} <= set(pretrained.metrics)
    last = {name: value for name, value in rows[-1].items() if value is not None}
    assert last == pretrained.metrics | {"step": 6}
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
        settings = {"data__corpus": tmp_path / "a.txt", "data__shards": tmp_path / "shards"}
        assert attempt(str(number), **settings, training__steps=1).code == 0
    assert len([p for p in (tmp_path / "shards").iterdir() if "tokenizer" not in p.name]) == 2


ALLOWED = {"temperature": "value > 0", "mask_fraction": "<= 1", "candidates": "2 or more"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"encoder__hidden_size": 64}, "has another size or form than"),
        ({"data__max_length_tokens": 256}, "= 256 exceeds the position table"),
        ({"training__steps": "null"}, "training.steps is not given"),
        ({"encoder__heads": 5}, "encoder.heads = 5"),
        ({"training__evaluate_every_steps": 2}, "a pre-training evaluates nothing"),
        ({"training__early_stopping__patience": 2}, "a pre-training evaluates nothing"),
        ({"init": "", "encoder__family": "init"}, "family = init without init"),
        ({"generator__kind": "frozen"}, "without generator.init"),
        ({"objective__name": "electre"}, "did you mean 'electra'"),
        *(({f"objective__options__{name}": -1}, text) for name, text in ALLOWED.items()),
        ({"objective__name": "mc_bert", "objective__options__candidates": 4.5}, "like its default"),
        ({"objective__name": "mlm", "objective__options__candidates": 5}, "no option candidates"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(attempt, pretrained, changed, message):
    """As are other values that no pre-training can have."""
    attempt(**{"init": pretrained.directory} | changed).refused(2, message)


@pytest.mark.parametrize("key", ["init", "generator__init"])
def test_a_model_that_is_not_there_is_told_before_a_corpus_is_built(attempt, tmp_path, key):
    attempt(**{key: tmp_path / "nothing", "data__shards": tmp_path / "shards"}).refused(
        2, f"{key.replace('__', '.')} = {tmp_path / 'nothing'}: no such directory"
    )
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("changed", [{"seed": 1}, {"training.passes": 2}])
def test_another_seed_and_more_passes_give_other_weights(
    pretrained, pretraining, tmp_path, changed
):
    run = rr.pretrain(overrides=pretraining | changed, run_dir=tmp_path)
    assert weights(run) != weights(pretrained)


def test_a_store_that_goes_away_stops_the_run_and_the_same_command_resumes_it(
    pretraining, pretrained, tmp_path, monkeypatch
):
    monkeypatch.setattr(build_corpus, "_ROWS_PER_SHARD", 40)
    monkeypatch.setattr(build_corpus, "_BLOCK_CHARACTERS", 2000)
    settings = pretraining | {
        "data.shards": f"file://{tmp_path / 'shards'}",
        "data.tokenizer": pretrained.hf_dir,
        "data.shuffled_shards": 1,
        **{"training.steps": 24, "training.save_every_steps": 2, "training.log_every_steps": 1},
    }

    def train(name):
        own = {"run_dir": tmp_path / name, "data.shard_cache": tmp_path / f"{name} cache"}
        return rr.pretrain(overrides=settings | own)

    def away(self, path, target, size):
        if "gone" in target.name and next(calls) > 2:  # not for what the first run still fetches
            raise ResourceError(f"{path}: cannot be read")
        return download(self, path, target, size)

    calm, download, calls = weights(train("calm")), Storage.download, count()
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "download", away)
        with pytest.raises(ResourceError, match=r"shard.*cannot be read"):
            train("gone")
    run = train("gone")
    assert weights(run) == calm
    assert [row["step"] for row in read_rows(run.directory / "metrics.jsonl")] == [*range(1, 25)]
    assert "resumed" in (run.directory / "events.jsonl").read_text()
