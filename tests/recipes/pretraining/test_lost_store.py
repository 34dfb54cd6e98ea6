"""A training whose shards lie in an object store, and the line to that store is cut."""

from __future__ import annotations

import time

import pytest

import road_ray as rr
from road_ray.data.corpus import build_corpus
from road_ray.errors import ResourceError
from road_ray.system import remote_files
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.object_store import Line, object_store
from tests.runs import weights

STEPS = 24
TRAINING = {"steps": STEPS, "save_every_steps": 2, "log_every_steps": 1}


@pytest.fixture(scope="module")
def line():
    with object_store("texts") as host:
        made = Line(host)
        yield made
        made.close()


@pytest.fixture(scope="module")
def training(line, pretraining, pretrained, tmp_path_factory):
    """``training(name)``: the run of that name, whose shards are fetched through the line."""
    root = tmp_path_factory.mktemp("runs")
    settings = {
        "data.shards": f"s3://texts/s?endpoint_override={line.host}&scheme=http&region=us-east-1",
        "data.tokenizer": pretrained.hf_dir,
        "data.shuffled_shards": 1,
    }
    settings |= {f"training.{name}": n for name, n in TRAINING.items()}

    def run(name):
        own = {"run_dir": root / name, "data.shard_cache": root / f"{name} cache"}
        return rr.pretrain(overrides=pretraining | settings | own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_corpus, "_ROWS_PER_SHARD", 40)
        patch.setattr(build_corpus, "_BLOCK_CHARACTERS", 2000)
        yield run


@pytest.fixture(scope="module")
def calm(training):
    """The weights of a run whose line is whole; it builds the corpus."""
    return weights(training("calm"))


def test_a_line_that_is_cut_in_a_shard_costs_a_pause_only(training, calm, line):
    line.cut_after(20_000)
    assert weights(training("cut")) == calm
    assert line.cuts == 1


def test_a_store_that_goes_away_stops_the_run_and_the_same_command_resumes_it(
    training, calm, line, monkeypatch
):
    monkeypatch.setattr(remote_files, "_GIVE_UP_SECONDS", 2.0)
    line.cut_after(40_000, down=True)
    began = time.monotonic()
    message = r"shard.*cannot be read at byte \d+(?s:.)*attempts in(?s:.)*fix(?s:.)*same command"
    with pytest.raises(ResourceError, match=message):
        training("gone")
    assert time.monotonic() - began < 60
    line.down = False
    run = training("gone")
    assert weights(run) == calm
    assert [row["step"] for row in read_rows(run.directory / "metrics.jsonl")] == [
        *range(1, STEPS + 1)
    ]
    assert "resumed" in (run.directory / "events.jsonl").read_text()
