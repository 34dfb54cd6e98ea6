"""Pre-training that was killed, or is shared by workers, ends at the weights of a straight run."""

import json

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

import road_ray as rr
from road_ray.data.batching import BatchStream
from road_ray.recipes.pretraining import pretrain as recipe
from road_ray.recipes.pretraining.preview import peek
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.run_context import RunContext
from road_ray.verbs import configure
from tests.pair import both


@pytest.fixture(scope="module")
def settings(pretraining):
    return pretraining | {"training.save_every_steps": 2}


@pytest.fixture(scope="module")
def straight(settings, tmp_path_factory):
    return rr.pretrain(overrides=settings, run_dir=tmp_path_factory.mktemp("straight") / "run")


def weights(directory):
    return load_file(directory / "hf" / "model.safetensors")


def test_a_killed_run_goes_on_bit_for_bit(straight, settings, tmp_path, monkeypatch):
    since = BatchStream.since

    def killed_at(last):
        def broken(self, number):
            for batch_number, batch in enumerate(since(self, number), number):
                if batch_number == last:
                    raise OSError("killed")
                yield batch

        return broken

    with monkeypatch.context() as patch:
        for last in (3, 5):  # with checkpoints of steps 2 and 4
            patch.setattr(BatchStream, "since", killed_at(last))
            with pytest.raises(OSError, match="killed"):
                rr.pretrain(overrides=settings, run_dir=tmp_path)
    rr.pretrain(overrides=settings, run_dir=tmp_path)
    ours = (tmp_path / "hf" / "model.safetensors").read_bytes()
    assert ours == (straight.directory / "hf" / "model.safetensors").read_bytes()
    rows = read_rows(tmp_path / "events.jsonl")
    events = [(event["kind"], event["step"]) for event in rows if "step" in event]
    assert events == [("resumed", 2), ("resumed", 4)]
    head, *_ = peek(str(straight.directory), 100).split("\n\n")
    assert head == "electra, the batch after step 6: 8 of 8 rows"


def test_two_workers_learn_as_one_does(straight, settings, tmp_path):
    config = configure("pretrain", overrides=settings | {"run_dir": str(tmp_path / "run")})
    both(as_alone, tmp_path, config, weights(straight.directory), timeout_seconds=60)


def as_alone(worker, config, expected):
    """What each process does: its share of every batch."""
    recipe.main(config, worker, RunContext())
    assert_close(weights(config.run_dir), expected, rtol=1e-4, atol=1e-5)


def test_a_run_is_told_by_corpus_and_batch_as_it_always_was(pretraining, pretrained):
    (checkpoint,) = (pretrained.directory / "checkpoints").glob("step-*")
    recorded = json.loads((checkpoint / "state.json").read_text())["identity"]
    config = configure("pretrain", overrides=pretraining)
    assert recipe.prepare(config, recipe.Worker()).identity() == recorded
    assert recorded.keys() == {"corpus", "batch"}
    assert not (pretrained.directory / "events.jsonl").exists()
