"""A training step as a list of passes: the same data set again (accumulation), or drawn data sets
(ROaD).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from road_ray.data.batching import Batch
from road_ray.data.config import Sampler


class Stream(Protocol):
    """The batches of one data set: a ``BatchStream``, or one with what teachers say."""

    def since(self, number: int, /) -> Iterator[Batch]:
        """Batches ``number``, ``number + 1``, ... without end."""
        ...


def accumulated(batches: Iterable[Batch], passes: int) -> Iterator[list[Batch]]:
    """Steps of ``passes`` consecutive batches; a rest that fills no step is left out."""
    for group in zip(*[iter(batches)] * passes, strict=False):
        yield list(group)


def with_fraction_done(
    steps: Iterable[list[Batch]], *, start: int, total: int
) -> Iterator[list[Batch]]:
    """The steps with the ``fraction`` of the training that is done in every batch: 0 at first,
    below 1 at last.

    In the batch and not in a counter, so that a resumed run reads what an uninterrupted one does.
    """
    for step, batches in enumerate(steps, start):
        yield [batch | {"fraction": step / total} for batch in batches]


def draw_datasets(
    names: Sequence[str],
    passes: int,
    *,
    seed: int,
    step: int,
    probabilities: Sequence[float] | None = None,
    replacement: bool = True,
) -> list[str]:
    """The data sets of one step, the same on every worker: independent draws, or without
    ``replacement`` different ones.

    Uniform over data sets unless ``probabilities`` are given. Source: ROaD part 1, Algorithm 1.
    """
    rng = np.random.default_rng((seed, 2, step))
    drawn = rng.choice(len(names), size=passes, p=probabilities, replace=replacement)
    return [names[index] for index in drawn]


def probabilities(
    sampler: Sampler, rows: Mapping[str, int], tasks: Mapping[str, str], *, power: float = 1.0
) -> list[float] | None:
    """The chance of each data set to be drawn, given its rows and its task; None if all are equal.

    Source: ROaD part 1 (``uniform_dataset``); MT-DNN, algorithm 1 (``proportional``); BAM, section
    3.3 (``size_power`` with 0.75).
    """
    match sampler:
        case "uniform_dataset":
            return None
        case "uniform_task":
            sets = Counter(tasks[name] for name in rows)
            shares = [1.0 / sets[tasks[name]] for name in rows]
        case "proportional":
            shares = [float(count) for count in rows.values()]
        case "size_power":
            shares = [count**power for count in rows.values()]
    return [share / sum(shares) for share in shares]


def with_example_counts(steps: Iterable[list[Batch]]) -> Iterator[list[Batch]]:
    """The same steps; each batch tells the journal how many examples of its data set it brings."""
    for passes in steps:
        for batch in passes:
            mine = {f"mix/{batch['dataset']}": float(len(batch["input_ids"]))}
            batch["stats"] = {**batch.get("stats", {}), **mine}
        yield passes


def mixed(
    streams: Mapping[str, Stream],
    passes: int,
    *,
    seed: int,
    start: int = 0,
    probabilities: Sequence[float] | None = None,
    replacement: bool = True,
) -> Iterator[list[Batch]]:
    """Steps of ``passes`` batches, each the next batch of a data set drawn for that pass, from step
    ``start`` on; a stream is read in its order from the first batch that is wanted.

    How far each data set has come is recounted from the draws, so nothing has to be stored to
    resume.
    """
    draw = partial(
        draw_datasets,
        list(streams),
        passes,
        seed=seed,
        probabilities=probabilities,
        replacement=replacement,
    )
    used: Counter[str] = Counter()
    for step in range(start):
        used.update(draw(step=step))
    following = {name: stream.since(used[name]) for name, stream in streams.items()}
    for step in itertools.count(start):
        yield [next(following[name]) for name in draw(step=step)]
