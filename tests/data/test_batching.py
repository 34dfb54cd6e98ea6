"""Batches as a function of the seed: complete, alike in length, and tiled by the workers."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from road_ray.data.batching import (
    NOISE_CHANNELS,
    BatchStream,
    allowed_positions,
    epoch_order,
    pad,
    padded_width,
    token_budget_cuts,
)
from road_ray.data.examples import Features
from road_ray.errors import ConfigError, DataError


def features(count=37, seed=0, longest=30):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, longest + 1, count)
    return Features(
        dataset="d",
        task="t",
        tokens=rng.integers(5, 90, int(lengths.sum())).astype(np.int32),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        first_segment=np.minimum(lengths, 4).astype(np.int32),
        gold={"labels": np.arange(count), "scores": np.arange(count, dtype=np.float32)},
        example=np.arange(count, dtype=np.int32),
    )


def stream(rows=None, *, batch_size=8, seed=3, noise=True, rank=0, size=1):
    return BatchStream(
        features() if rows is None else rows,
        batch_size,
        seed,
        pad_id=0,
        rank=rank,
        size=size,
        noise_channels=NOISE_CHANNELS if noise else 0,
    )


@pytest.mark.parametrize(
    ("count", "batch_size"), [(37, 8), (8, 8), (9, 8), (5, 8), (1, 1), (999, 4)]
)
def test_a_stream_goes_through_all_rows_epoch_after_epoch(count, batch_size):
    made, orders = stream(features(count), batch_size=batch_size), set()
    batches = made.batches_per_epoch
    assert batches == -(-count // batch_size)
    for epoch in range(3):
        order = [made.row_numbers(batches * epoch + k) for k in range(batches)]
        assert sorted(np.concatenate(order)) == list(range(count))
        sizes = {len(numbers) for numbers in order}
        assert max(sizes) <= batch_size
        assert max(sizes) - min(sizes) <= 1
        orders.add(tuple(np.concatenate(order)))
    assert len(orders) == 3 or count < 37


def test_little_is_padding_and_the_long_batches_come_at_any_time():
    rows = features(4000, longest=128)
    order = epoch_order(rows.lengths, 16, np.random.default_rng(0))
    real = rows.lengths.sum()
    padded = sum(len(n) * padded_width(int(rows.lengths[n].max())) for n in order)
    assert padded < 1.1 * real
    shuffled = sum(
        len(n) * int(rows.lengths[n].max()) for n in np.array_split(np.arange(4000), 250)
    )
    assert shuffled > 1.6 * real  # what lengths of 3 to 128 would cost in the order of the file
    means = np.array([rows.lengths[numbers].mean() for numbers in order])
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.2


@pytest.mark.parametrize(("longest", "most"), [(29, 29), (61, 61), (99, 100), (99, 99)])
def test_a_batch_is_never_wider_than_the_limit_of_its_rows(longest, most):
    rows = replace(features(200, longest=longest), max_length_tokens=most)
    batches = stream(rows)
    widths = [batches[n]["input_ids"].shape[1] for n in range(batches.batches_per_epoch)]
    assert max(widths) == most
    assert pad(rows, np.arange(200), pad_id=0)["input_ids"].shape[1] == most
    assert batches.totals(batches.batches_per_epoch).positions == sum(
        len(batches.row_numbers(n)) * width for n, width in enumerate(widths)
    )


def test_gold_goes_with_its_row_and_keeps_its_type():
    rows = features()
    batch = stream(rows)[2]
    assert torch.equal(batch["labels"], batch["rows"])
    assert batch["labels"].dtype == torch.int64
    assert batch["scores"].dtype == torch.float32
    for index, number in enumerate(batch["rows"].tolist()):
        row = rows.row(number)
        assert batch["input_ids"][index, : len(row)].tolist() == row.tolist()
        second = batch["second_text"][index].nonzero().flatten().tolist()
        assert second == [*range(rows.first_segment[number], len(row))]
    assert (batch["task"], batch["dataset"]) == ("t", "d")


def equal(one, other):
    assert one.keys() == other.keys()
    return all(
        torch.equal(one[n], other[n]) if isinstance(one[n], torch.Tensor) else one[n] == other[n]
        for n in one
    )


def test_a_batch_is_a_function_of_its_number():
    first = stream()
    straight = list(islice(first.since(0), 12))  # over two epochs of 5 batches
    other = stream()
    for number in (11, 0, 7, 3, 7):
        assert equal(other[number], straight[number])
    assert all(equal(a, b) for a, b in zip(islice(stream().since(6), 6), straight[6:], strict=True))
    assert not equal(stream(seed=4)[0] | {"rows": 0}, straight[0] | {"rows": 0})


@pytest.mark.parametrize(("size", "longest"), [(2, 30), (3, 30), (4, 30), (3, 29)])
def test_the_workers_tile_the_global_batch_with_its_noise(size, longest):
    rows = replace(features(longest=longest), max_length_tokens=longest)  # 29: of odd width too
    whole = stream(rows)
    shares = [stream(rows, rank=rank, size=size) for rank in range(size)]
    for number in range(6):  # batches of 7 and 8 rows
        batch = whole[number]
        for rank, share in enumerate(shares):
            mine = share[number]
            for name, value in mine.items():
                if name == "noise":
                    assert torch.equal(value, batch["noise"][:, rank::size])
                elif isinstance(value, torch.Tensor):
                    assert torch.equal(value, batch[name][rank::size]), name


def test_noise_is_uniform_new_in_every_batch_and_only_where_asked():
    first = stream()
    noise = torch.cat([first[number]["noise"].flatten() for number in range(20)])
    assert first[0]["noise"].shape[:2] == (3, len(first[0]["input_ids"]))
    assert 0 <= noise.min() < noise.max() < 1
    assert len(noise.unique()) > 0.99 * len(noise)
    assert "noise" not in stream(noise=False)[0]


def test_no_rows_and_too_few_for_the_workers_are_refused():
    with pytest.raises(DataError, match="d: 0 usable rows"):
        stream(features(0))
    with pytest.raises(ConfigError, match=r"(?s)smallest batch of d \(37 rows\) has 7.* 8 workers"):
        stream(rank=0, size=8)
    assert len(stream(rank=6, size=7)[0]["input_ids"]) == 1


def test_answers_lie_in_the_second_segment_or_at_position_0():
    batch = {
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]] * 2),
        "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 0]] * 2),
    }
    allowed = allowed_positions(batch)
    assert allowed.tolist() == [[True, False, False, True, True, False]] * 2
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1, 0]] * 2
    attention = torch.tensor([[1, 1, 1, 0]])
    allowed = [[True, True, True, False]]  # where a model knows no segments
    assert allowed_positions({"attention_mask": attention}).tolist() == allowed
    none = {"attention_mask": attention, "token_type_ids": torch.zeros(1, 4)}
    assert allowed_positions(none).tolist() == allowed
    assert allowed_positions({"input_ids": torch.zeros(1, 2)}).all()


@pytest.mark.parametrize(("count", "most"), [(37, 64), (37, 128), (200, 100), (1, 32)])
def test_a_budget_holds_every_row_once_and_no_more_tokens_than_it_says(count, most):
    lengths = np.sort(features(count).lengths)
    batches = np.split(lengths, token_budget_cuts(lengths, most, 6))
    assert 0 < min(map(len, batches)) <= max(map(len, batches)) <= 6
    assert all(len(batch) * padded_width(int(batch.max())) <= most for batch in batches)
    # Five of 2 tokens and one of 3: the last batch is given some, or one worker of two had no row.
    assert token_budget_cuts(np.array([1, 1, 2, 2, 2, 3]), 10, 99) == [3]


def test_sizes_of_batches_are_known_without_making_them():
    made = BatchStream(features(), 8, 3, pad_id=0)
    for epochs in (1, 3):
        count = epochs * made.batches_per_epoch
        masks = [made[number]["attention_mask"] for number in range(count)]
        totals = made.totals(count)
        assert totals.rows == sum(len(mask) for mask in masks)
        assert totals.tokens == sum(int(mask.sum()) for mask in masks)
        assert totals.positions == pytest.approx(sum(mask.numel() for mask in masks), rel=0.05)
        assert made.totals(count + 1).rows == pytest.approx(totals.rows + 8, abs=8)


def test_the_fingerprint_sees_tokens_bounds_segments_and_gold():
    rows = features(2)
    changed = [
        replace(rows, tokens=rows.tokens + 1),
        replace(rows, bounds=rows.bounds + np.array([0, 1, 0])),
        replace(rows, first_segment=rows.first_segment - 1),
        replace(rows, gold={"labels": np.array([1, 1])}),
    ]
    assert len({rows.fingerprint(), *(item.fingerprint() for item in changed)}) == 5
    assert replace(rows, dataset="other").fingerprint() == rows.fingerprint()
