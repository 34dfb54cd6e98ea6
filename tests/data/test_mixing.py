"""Steps as lists of passes: consecutive batches, drawn data sets, or phases of row lengths."""

from collections import Counter
from functools import partial
from itertools import count, islice, product

import numpy as np
import pytest
import torch
from scipy import stats

from road_ray.config import InvalidConfig, load
from road_ray.data.batching import BatchStream
from road_ray.data.config import CorpusConfig
from road_ray.data.examples import Features
from road_ray.data.mixing import (
    ScheduledSteps,
    accumulated,
    draw_datasets,
    mixed,
    phases_of,
    probabilities,
    with_fraction_done,
)
from road_ray.errors import ConfigError

NAMES = ["mnli", "qqp", "squad"]


def numbered(name, number):
    """Batches of a stream, batch ``k`` of which says who it is."""
    return ({"dataset": name, "number": k} for k in count(number))


def streams():
    return {name: partial(numbered, name) for name in NAMES}


def drawn(passes, **options):
    return lambda step: draw_datasets(NAMES, passes, step=step, **options)


def test_accumulation_groups_consecutive_batches_and_drops_the_rest():
    assert list(accumulated(range(7), 3)) == [[0, 1, 2], [3, 4, 5]]
    assert list(accumulated(range(3), 1)) == [[0], [1], [2]]


def test_data_sets_are_drawn_uniformly_and_independently_with_replacement():
    drawn = [tuple(draw_datasets(NAMES, 2, seed=0, step=step)) for step in range(9000)]
    counts = Counter(drawn)
    observed = [counts[pair] for pair in product(NAMES, NAMES)]
    assert sum(observed) == 9000
    assert stats.chisquare(observed).pvalue > 1e-3


def test_without_replacement_a_step_draws_different_data_sets_with_their_chances():
    options = {"seed": 0, "probabilities": [0.8, 0.1, 0.1], "replacement": False}
    drawn = [draw_datasets(NAMES, 2, step=step, **options) for step in range(300)]
    assert all(len(set(names)) == 2 for names in drawn)
    assert sum("mnli" in names for names in drawn) > 250


def test_samplers_by_hand():
    rows = {"a": 100, "b": 300, "c": 1600}
    tasks = {"a": "nli", "b": "nli", "c": "mrc"}
    assert probabilities("uniform_dataset", rows, tasks) is None
    assert probabilities("uniform_task", rows, tasks) == [0.25, 0.25, 0.5]
    assert probabilities("proportional", rows, tasks) == [0.05, 0.15, 0.8]
    root = probabilities("size_power", rows, tasks, power=0.5)
    assert root == pytest.approx([10 / 67.32, 17.32 / 67.32, 40 / 67.32], abs=1e-3)


def test_annealed_draws_go_from_the_number_of_rows_towards_uniform():
    rows, tasks = {"a": 32, "b": 1}, {"a": "nli", "b": "mrc"}
    first = probabilities("annealed", rows, tasks, fraction=0.0)
    assert first == probabilities("proportional", rows, tasks)
    last = probabilities("annealed", rows, tasks, fraction=1.0)  # 32 ** 0.2 = 2
    assert last == pytest.approx([2 / 3, 1 / 3])


def test_draws_depend_on_seed_and_step_alone():
    assert draw_datasets(NAMES, 8, seed=1, step=5) == draw_datasets(NAMES, 8, seed=1, step=5)
    assert draw_datasets(NAMES, 8, seed=1, step=5) != draw_datasets(NAMES, 8, seed=1, step=6)
    assert draw_datasets(NAMES, 8, seed=2, step=5) != draw_datasets(NAMES, 8, seed=1, step=5)


def test_every_data_set_goes_through_its_batches_in_order():
    seen = {name: [] for name in NAMES}
    for passes in islice(mixed(streams(), drawn(4, seed=0)), 50):
        assert len(passes) == 4
        for batch in passes:
            seen[batch["dataset"]].append(batch["number"])
    assert sum(map(len, seen.values())) == 200
    for numbers in seen.values():
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("start", [0, 1, 17, 40])
@pytest.mark.parametrize("chances", [None, [0.5, 0.25, 0.25]])
@pytest.mark.parametrize("replacement", [True, False])
def test_resuming_in_the_middle_equals_going_straight(start, chances, replacement):
    options = {"seed": 3, "probabilities": chances, "replacement": replacement}
    straight = list(islice(mixed(streams(), drawn(3, **options)), 45))
    resumed = list(islice(mixed(streams(), drawn(3, **options), start=start), 45 - start))
    assert resumed == straight[start:]


def test_every_batch_knows_how_much_of_the_training_is_done():
    steps = [[{"a": n}, {"b": n}] for n in range(4)]
    whole = list(with_fraction_done(steps, start=0, total=4))
    fractions = [batch["fraction"] for step in whole for batch in step]
    assert fractions == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75]
    assert list(with_fraction_done(steps[2:], start=2, total=4)) == whole[2:]
    assert "fraction" not in steps[0][0]


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
    batchings = [(rows(p.max_length_tokens), p.batch_size, p.seed) for p in phases]
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
