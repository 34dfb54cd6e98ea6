"""Losses that jump are told with their rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from road_ray.data.mixing import accumulated
from road_ray.errors import DivergedError, InterruptedRunError
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.optimization.loss_guard import SpikeDetector
from road_ray.training.worker import Worker

AT = 12
STEPS = 15


def falling(count, seed):
    """Losses as a training has them: falling from 50 to 15, a tenth of noise."""
    rng = np.random.default_rng(seed)
    return (15 + 35 * np.exp(-np.arange(count) / 50)) * rng.normal(1, 0.1, count).clip(0.7, 1.3)


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_a_thousand_times_as_large_is_seen_and_no_other(seed):
    losses = falling(300, seed)
    at = int(np.random.default_rng(seed).integers(10, 300))
    assert not any(map(SpikeDetector().is_spike, losses))
    losses[at] *= 1e3
    spikes = SpikeDetector()
    assert [step for step, loss in enumerate(losses) if spikes.is_spike(loss)] == [at]


def test_the_rare_hard_batch_of_a_mixture_is_usual():
    losses = [4.0 if step % 10 == 7 else 0.3 for step in range(200)]
    assert not any(map(SpikeDetector().is_spike, losses))


def test_a_new_level_is_a_spike_four_times_and_then_usual():
    spikes = SpikeDetector([1.0] * 10)
    assert [spikes.is_spike(9.0) for _ in range(30)] == [True] * 4 + [False] * 26


def jumping(tiny, at=(AT,)):
    """Passes of one data set; the gold of the steps ``at`` is a thousand times as large."""
    stream = tiny.stream(tiny.rows(tiny.similarity))

    def steps(start):
        for step, passes in enumerate(accumulated(stream.since(start), 1), start):
            factor = 1e3 if step in at else 1.0
            yield [batch | {"labels": batch["labels"] * factor} for batch in passes]

    return steps


def learned(tiny, place, at=(AT,), steps=None, **options):
    objective = tiny.supervised(tasks=(tiny.similarity,))
    made = tiny.training(place, steps=STEPS, **options)
    train(objective, steps or jumping(tiny, at), made, Worker())
    path = place / "events.jsonl"
    events = read_rows(path) if path.is_file() else []
    return objective, [event for event in events if event["kind"] == "loss_spike"]


def same(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_spike_is_an_event_with_its_rows_and_a_quiet_run_has_none(tiny, tmp_path):
    _, quiet = learned(tiny, tmp_path / "quiet", at=())
    assert quiet == []
    _, events = learned(tiny, tmp_path / "loud")
    (event,) = events
    rows = tiny.stream(tiny.rows(tiny.similarity)).row_numbers(AT).tolist()
    assert (event["step"], event["datasets"]) == (AT, ["d_similarity"])
    assert event["rows"] == rows
    assert event["loss"] > 1e3 * event["largest_before"]


def test_three_spikes_are_warned_of_and_all_are_events(tiny, tmp_path, caplog):
    at = (AT - 1, AT, AT + 1, AT + 2)
    _, events = learned(tiny, tmp_path, at=at)
    assert [event["step"] for event in events] == list(at)
    warnings = [one.getMessage() for one in caplog.records if "jumped" in one.getMessage()]
    assert len(warnings) == 3
    assert all("events.jsonl" in warning for warning in warnings)


def stopped_and_resumed(tiny, place, at):
    """As ``learned``, of a run that is stopped before ``AT`` and goes on."""

    def broken(start):
        for step, passes in enumerate(jumping(tiny, at)(start), start):
            if step == AT:
                raise InterruptedRunError("gone")
            yield passes

    with pytest.raises(InterruptedRunError):
        learned(tiny, place, steps=broken, save_every_steps=AT)
    return learned(tiny, place, at, save_every_steps=AT)


def test_a_run_that_was_stopped_amid_spikes_counts_on(tiny, tmp_path):
    """The fifth in a row is the new level, wherever the run was stopped."""
    level = range(AT - 2, STEPS)
    straight, events = learned(tiny, tmp_path / "straight", at=level)
    assert [event["step"] for event in events] == [AT - 2, AT - 1, AT, AT + 1]
    resumed, again = stopped_and_resumed(tiny, tmp_path / "resumed", at=level)
    assert [event["step"] for event in again] == [event["step"] for event in events]
    assert same(resumed, straight)


@pytest.fixture
def deferred(monkeypatch):
    """Losses are read at rows of the journal only, as on a GPU."""
    monkeypatch.setattr("road_ray.training.loop.is_deferrable", lambda *_: True)


def diverged(tiny, place, **options):
    """A run whose labels are not finite at step ``AT``: its weights and its error."""
    stream = tiny.stream(tiny.rows(tiny.similarity))

    def steps(start):
        for step, passes in enumerate(accumulated(stream.since(start), 1), start):
            gap = float("inf") if step == AT else 0.0
            yield [batch | {"labels": batch["labels"] + gap} for batch in passes]

    objective = tiny.supervised(tasks=(tiny.similarity,))
    with pytest.raises(DivergedError) as raised:
        train(objective, steps, tiny.training(place, steps=STEPS, **options), Worker())
    return objective, str(raised.value)


def test_losses_that_are_read_late_end_a_run_with_the_same_error_and_weights(
    tiny, tmp_path, request
):
    at_once, error = diverged(tiny, tmp_path / "at_once")
    request.getfixturevalue("deferred")
    late, late_result = diverged(tiny, tmp_path / "late", log_every_steps=STEPS)
    assert late_result.replace("late", "at_once") == error
    assert f"step {AT}: gradient norm" in error
    assert same(late, at_once)


def test_spikes_that_are_read_late_are_the_same_events(tiny, tmp_path, request):
    at_once, events = learned(tiny, tmp_path / "at_once")
    request.getfixturevalue("deferred")
    late, late_result = learned(tiny, tmp_path / "late", log_every_steps=STEPS)
    assert [event["step"] for event in late_result] == [AT]
    assert [event["loss"] for event in late_result] == [event["loss"] for event in events]
    assert same(late, at_once)
