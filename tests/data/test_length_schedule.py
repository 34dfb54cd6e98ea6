"""Where phases begin and end, worked out by hand, and steps that know nothing but their number."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from road_ray.config import InvalidConfig, load
from road_ray.data.batching import Batching, BatchStream
from road_ray.data.config import CorpusConfig
from road_ray.data.examples import Features
from road_ray.data.mixing import ScheduledSteps, phases_of, tokens_before
from road_ray.errors import ConfigError

BERT = ["max_length_tokens=512", "shorter_first.128.fraction=0.9", "batch_size=256"]
LATER = ["shorter_first.64.fraction=0.2", "batch_size=4"]


def configured(*overrides):
    return load(CorpusConfig, overrides=overrides)


def rows(length, count=10):
    """Rows of one length, all tokens of row r being 5 + r."""
    return Features(
        dataset="corpus",
        task="",
        tokens=np.repeat(np.arange(5, 5 + count, dtype=np.int32), length),
        bounds=np.arange(count + 1, dtype=np.int64) * length,
        first_segment=np.full(count, length, np.int32),
        gold={},
        example=np.arange(count, dtype=np.int32),
    )


def steps_of(*overrides):
    phases = phases_of(configured(*overrides), 10, seed=3)
    options = {"pad_id": 0, "noise_channels": 3}
    batchings = [(rows(p.max_length_tokens), Batching(p.batch_size, p.seed)) for p in phases]
    return ScheduledSteps(phases, tuple(BatchStream(*b, **options) for b in batchings), passes=2)


@pytest.mark.parametrize(
    ("overrides", "total", "expected"),
    [
        (["batch_size=256"], 7, [(0, 7, 128, 256)]),
        (BERT, 1_000_000, [(0, 900_000, 128, 256), (900_000, 1_000_000, 512, 256)]),
        (
            [*LATER, "shorter_first.16.fraction=0.7", "shorter_first.16.batch_size=32"],
            12,  # 0.7 * 12 = 8.4 and 0.9 * 12 = 10.8
            [(0, 8, 16, 32), (8, 11, 64, 4), (11, 12, 128, 4)],
        ),
    ],
)
def test_borders_are_shares_of_the_steps_and_lengths_rise(overrides, total, expected):
    phases = phases_of(configured(*overrides), total, seed=0)
    assert [(p.start, p.end, p.max_length_tokens, p.batch_size) for p in phases] == expected


def test_work_is_counted_in_tokens_of_full_rows():
    phases = phases_of(configured(*BERT), 10, seed=0)
    assert [tokens_before(phases, step) for step in (0, 2, 9, 10)] == [
        *(0, 2 * 256 * 128, 9 * 256 * 128, 9 * 256 * 128 + 256 * 512)
    ]


@pytest.mark.parametrize(
    ("overrides", "total", "length"), [(BERT, 1, 512), (BERT, 4, 512), (LATER, 2, 64)]
)
def test_every_phase_needs_a_step(overrides, total, length):
    with pytest.raises(ConfigError, match=f"steps = {total}: rows of {length} tokens get no step"):
        phases_of(configured(*overrides), total, seed=0)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["shorter_first.128.fraction=0.9"], "shorter_first.128 is not shorter than max_length"),
        (["shorter_first.x.fraction=0.9"], "x is no length of rows"),
        (["shorter_first.7.fraction=0.9"], "7 is no length of rows"),
        (["shorter_first.64.fraction=1"], "shorter_first.64.fraction = 1"),
        (["shorter_first.64.batch_size=4"], "shorter_first.64.fraction is not set"),
        (
            ["shorter_first.16.fraction=0.5", "shorter_first.64.fraction=0.5"],
            "fractions make 1, which leaves nothing for rows of max_length_tokens = 128",
        ),
    ],
)
def test_what_makes_no_phases_is_refused(overrides, message):
    with pytest.raises(InvalidConfig) as error:
        configured(*overrides)
    assert message in str(error.value)


def test_steps_from_anywhere_are_those_of_a_straight_run():
    made = steps_of("shorter_first.8.fraction=0.3", "shorter_first.16.fraction=0.4", "batch_size=4")
    straight = list(islice(made.since(0), 12))  # two beyond the end: a plan may look there
    widths = [batch["input_ids"].shape[1] for passes in straight for batch in passes]
    assert widths == 3 * 2 * [8] + 4 * 2 * [16] + 5 * 2 * [128]
    begun = [passes[0]["rows"].tolist() for passes in (straight[0], straight[3], straight[7])]
    assert begun == [stream[0]["rows"].tolist() for stream in made.streams]
    for start in range(12):
        again = list(islice(made.since(start), 12 - start))
        for ours, theirs in zip(again, straight[start:], strict=True):
            assert len(ours) == len(theirs) == 2
            for one, other in zip(ours, theirs, strict=True):
                assert torch.equal(one["input_ids"], other["input_ids"])
                assert torch.equal(one["noise"], other["noise"])


def test_the_first_phase_is_the_beginning_of_a_run_of_its_length_alone():
    phased = steps_of("shorter_first.16.fraction=0.5", "batch_size=4")
    alone = steps_of("max_length_tokens=16", "batch_size=4")
    assert phased.phases[0].seed == alone.phases[0].seed == 3
    for ours, theirs in zip(islice(phased.since(0), 5), alone.since(0), strict=False):
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one["rows"], other["rows"])
            assert torch.equal(one["noise"], other["noise"])
