"""Data sets of a mixture, their streams, and the steps drawn from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from road_ray.data.batching import Batch, Batching, BatchStream, BatchTotals, WorkerShare
from road_ray.data.features.encode_examples import row_limit
from road_ray.data.load_split import Split, find_dataset, load_split
from road_ray.data.mixing import (
    Stream,
    draw_datasets,
    mixed,
    probabilities,
    with_example_counts,
)
from road_ray.data.tokenizer import limit_length, pad_id_of
from road_ray.errors import ConfigError
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.preflight_checks import fit_positions
from road_ray.recipes.train_dev_overlap import warn_of_overlap
from road_ray.training.worker import Worker


def check_mixing(config: MultitaskConfig) -> None:
    mixing, names = config.mixing, config.data.datasets
    if not mixing.replacement and mixing.passes > len(names):
        raise ConfigError(
            f"mixing.passes = {mixing.passes} without replacement, of {len(names)} data sets\n"
            f"  allowed: at most {len(names)}\n  fix: lower it, or mixing.replacement=true"
        )
    known = {part for name in names for part in (name, find_dataset(name, config.data)[0].task)}
    for name, weight in mixing.weights.items():
        if name not in known:
            raise ConfigError(
                f"mixing.weights.{name}: no data set or task of the mix\n"
                f"  known: {', '.join(sorted(known))}"
            )
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"mixing.weights.{name} = {weight}\n  allowed: 0 or more")


def read_mixture(
    config: MultitaskConfig, worker: Worker, tokenizer: Any, positions: int
) -> tuple[dict[str, Split], dict[str, Split]]:
    """Return the splits to train on and, on the leading worker, those to evaluate on. Limits the
    tokenizer to the ``positions`` of the encoder.
    """
    splits = {name: _split(config, name, "train", tokenizer) for name in config.data.datasets}
    # Read now, so that missing data fail at once and not after hours of training.
    judged = {
        name: _split(config, name, "dev", tokenizer)
        for name in (config.data.datasets if worker.leads else ())
    }
    for name, split in judged.items():
        warn_of_overlap(splits[name], split)
    splits, judged = (
        {name: fit_positions(split, positions) for name, split in of.items()}
        for of in (splits, judged)
    )
    lengths = [row_limit(config.data.max_length_tokens, split.task) for split in splits.values()]
    limit_length(tokenizer, positions, max(lengths))
    return splits, judged


def _split(config: MultitaskConfig, name: str, part: str, tokenizer: Any) -> Split:
    """Return a split; with ``mixing.heads=dataset``, its task is named after the data set."""
    unlabelled = config.data.unlabelled.get(name, ()) if part == "train" else ()
    split = load_split(name, part, config.data, tokenizer, unlabelled=unlabelled)
    if config.mixing.heads == "task":
        return split
    features = replace(split.features, task=name)
    return replace(split, features=features, task=replace(split.task, name=name))


def make_stream(
    split: Split, config: MultitaskConfig, worker: Worker, tokenizer: Any
) -> BatchStream:
    return BatchStream(
        split.features,
        Batching(config.data.batch_size, config.seed, config.data.max_batch_tokens),
        WorkerShare(worker.rank, worker.size),
        pad_id=pad_id_of(tokenizer),
    )


def mixed_steps(
    config: MultitaskConfig,
    splits: Mapping[str, Split],
    streams: Mapping[str, Stream],
    start: int,
) -> Iterator[list[Batch]]:
    drawn = mixed(
        streams,
        config.mixing.passes,
        seed=config.seed,
        start=start,
        probabilities=_chances(config, splits),
        replacement=config.mixing.replacement,
    )
    return with_example_counts(drawn)


def _chances(config: MultitaskConfig, splits: Mapping[str, Split]) -> list[float] | None:
    return probabilities(
        config.mixing.sampler,
        {name: len(split.features) for name, split in splits.items()},
        _tasks_by_dataset(config),
        power=config.mixing.power,
    )


def _tasks_by_dataset(config: MultitaskConfig) -> dict[str, str]:
    """Return the task of each data set, also where each has its own head."""
    return {name: find_dataset(name, config.data)[0].task for name in config.data.datasets}


def loss_weights(config: MultitaskConfig) -> dict[str, float]:
    """Return the factor of the loss of each data set: its own, or that of its task."""
    weights = config.mixing.weights
    return {
        name: weights.get(name, weights.get(task, 1.0))
        for name, task in _tasks_by_dataset(config).items()
    }


def mixture_totals(
    config: MultitaskConfig,
    splits: Mapping[str, Split],
    streams: Mapping[str, BatchStream],
    total_steps: int,
) -> BatchTotals:
    """Return the sizes of all batches of ``mixed_steps``."""
    draw = partial(
        draw_datasets,
        list(streams),
        config.mixing.passes,
        seed=config.seed,
        probabilities=_chances(config, splits),
        replacement=config.mixing.replacement,
    )
    drawn = Counter(name for step in range(total_steps) for name in draw(step=step))
    each = [streams[name].totals(count) for name, count in drawn.items()]
    return BatchTotals(*map(sum, zip(*each, strict=True)))
