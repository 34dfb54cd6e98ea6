"""Pre-training in phases: three of six steps on rows of 16 tokens, two on 24, the last on 32."""

import json

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

import road_ray as rr
from road_ray.data.mixing import ScheduledSteps
from road_ray.recipes.pretraining import pretrain as recipe
from road_ray.recipes.pretraining.preview import peek
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.run_context import RunContext
from road_ray.verbs import configure
from tests.pair import both


@pytest.fixture(scope="module")
def phased(pretraining):
    first = {"data.shorter_first.16.fraction": 0.5, "data.shorter_first.16.batch_size": 12}
    second = {"data.shorter_first.24.fraction": 0.34}
    return pretraining | first | second | {"training.save_every_steps": 2}


@pytest.fixture(scope="module")
def straight(phased, tmp_path_factory):
    return rr.pretrain(overrides=phased, run_dir=tmp_path_factory.mktemp("phased") / "run")


def weights(directory):
    return load_file(directory / "hf" / "model.safetensors")


def identity(overrides):
    config = configure("pretrain", overrides=overrides)
    return recipe.prepare(config, recipe.Worker()).identity()


def test_each_phase_begins_with_an_event(straight):
    events = read_rows(straight.directory / "events.jsonl")
    keys = ("kind", "step", "max_length_tokens", "batch_size")
    *phases, last = [tuple(event.get(key) for key in keys) for event in events]
    assert phases == [("phase", 0, 16, 12), ("phase", 3, 24, 8), ("phase", 5, 32, 8)]
    assert last[0] == "checkpoints_removed"  # all but the newest
    head, first, *_ = peek(str(straight.directory), 100).split("\n\n")
    assert head == "electra, the batch after step 6: 8 of 8 rows"
    assert len(first.split()) > 24


def test_a_run_goes_on_across_the_borders_bit_for_bit(straight, phased, tmp_path, monkeypatch):
    since = ScheduledSteps.since

    def killed_at(last):
        def broken(self, step):
            for number, passes in enumerate(since(self, step), step):
                if number == last:
                    raise OSError("killed")
                yield passes

        return broken

    with monkeypatch.context() as patch:
        for last in (3, 5):  # with checkpoints of steps 2 and 4, both in the phase before
            patch.setattr(ScheduledSteps, "since", killed_at(last))
            with pytest.raises(OSError, match="killed"):
                rr.pretrain(overrides=phased, run_dir=tmp_path)
    rr.pretrain(overrides=phased, run_dir=tmp_path)
    ours = (tmp_path / "hf" / "model.safetensors").read_bytes()
    assert ours == (straight.directory / "hf" / "model.safetensors").read_bytes()
    rows = read_rows(tmp_path / "events.jsonl")
    events = [(event["kind"], event["step"]) for event in rows if "step" in event]
    assert events == [("phase", 0), ("resumed", 2), ("phase", 3), ("resumed", 4), ("phase", 5)]


def test_two_workers_learn_as_one_does(straight, phased, tmp_path):
    config = configure("pretrain", overrides=phased | {"run_dir": str(tmp_path / "run")})
    both(as_alone, tmp_path, config, weights(straight.directory), timeout_seconds=60)


def as_alone(worker, config, expected):
    """What each process does: its share of every batch."""
    recipe.main(config, worker, RunContext())
    assert_close(weights(config.run_dir), expected, rtol=1e-4, atol=1e-5)


def test_other_phases_are_other_inputs_and_one_is_what_it_always_was(
    phased, pretraining, pretrained
):
    assert identity(phased).keys() == {"corpus", "batch", "phases"}
    assert identity(phased) != identity(phased | {"data.shorter_first.16.batch_size": 8})
    (checkpoint,) = (pretrained.directory / "checkpoints").glob("step-*")
    alone = json.loads((checkpoint / "state.json").read_text())["identity"]
    assert identity(pretraining) == alone
    assert alone.keys() == {"corpus", "batch"}
    assert not (pretrained.directory / "events.jsonl").exists()
