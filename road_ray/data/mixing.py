"""A training step as a list of passes: the same data set again (accumulation), or drawn data sets
(ROaD).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from road_ray.data.batches import Batch, BatchStream


def accumulated(batches: Iterable[Batch], passes: int) -> Iterator[list[Batch]]:
    """Steps of ``passes`` consecutive batches; a rest that fills no step is left out."""
    for group in zip(*[iter(batches)] * passes, strict=False):
        yield list(group)


def timed(steps: Iterable[list[Batch]], *, start: int, total: int) -> Iterator[list[Batch]]:
    """The steps with the ``fraction`` of the training that is done in every batch: 0 at first,
    below 1 at last.

    In the batch and not in a counter, so that a resumed run reads what an uninterrupted one does.
    """
    for step, batches in enumerate(steps, start):
        yield [batch | {"fraction": step / total} for batch in batches]


def draws(
    names: Sequence[str],
    passes: int,
    *,
    seed: int,
    step: int,
    probabilities: Sequence[float] | None = None,
) -> list[str]:
    """The data sets of one step: independent draws with replacement, the same on every worker.

    Uniform over data sets unless ``probabilities`` are given. Source: ROaD part 1, Algorithm 1.
    """
    rng = np.random.default_rng((seed, 2, step))
    return [names[index] for index in rng.choice(len(names), size=passes, p=probabilities)]


def mixed(
    streams: Mapping[str, BatchStream],
    passes: int,
    *,
    seed: int,
    start: int = 0,
    probabilities: Sequence[float] | None = None,
) -> Iterator[list[Batch]]:
    """Steps of ``passes`` batches, each the next batch of a data set drawn for that pass, from step
    ``start`` on.

    How far each data set has come is recounted from the draws, so nothing has to be stored to
    resume.
    """
    names = list(streams)
    used: Counter[str] = Counter()
    for step in range(start):
        used.update(draws(names, passes, seed=seed, step=step, probabilities=probabilities))
    step = start
    while True:
        batches = []
        for name in draws(names, passes, seed=seed, step=step, probabilities=probabilities):
            batches.append(streams[name][used[name]])
            used[name] += 1
        yield batches
        step += 1
