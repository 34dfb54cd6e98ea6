"""Training steps as lists of passes: gradient accumulation, and data sets drawn at random (ROaD).

The data sets of a step follow from its number, so steps are a pure function of the seed.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from road_ray.data.batching import Batch
from road_ray.data.config import Sampler

_ANNEALED = 0.8  # by which the exponent of the number of rows falls, from 1 at the first step


Since = Callable[[int], Iterator[Batch]]
"""Yields batches ``number``, ``number + 1``, ... of one data set, without end."""


def draw_datasets(
    names: Sequence[str],
    passes: int,
    *,
    seed: int,
    step: int,
    probabilities: Sequence[float] | None = None,
    replacement: bool = True,
) -> list[str]:
    """Draw the data sets of one step, with or without ``replacement``, the same on every worker.

    Uniform over data sets unless ``probabilities`` are given. Source: ROaD part 1, Algorithm 1.
    """
    rng = np.random.default_rng((seed, 2, step))
    drawn = rng.choice(len(names), size=passes, p=probabilities, replace=replacement)
    return [names[index] for index in drawn]


def probabilities(
    sampler: Sampler,
    rows: Mapping[str, int],
    tasks: Mapping[str, str],
    *,
    power: float = 1.0,
    fraction: float = 0.0,
) -> list[float] | None:
    """Return the probability of each data set, given its rows and task, when this ``fraction`` of
    the training is done; None if uniform.

    Source: ROaD part 1 (``uniform_dataset``); MT-DNN, algorithm 1 (``proportional``); BAM, section
    3.3 (``size_power`` with 0.75); Stickland and Murray 2019, section 3.2 (``annealed``).
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
        case "annealed":
            shares = [count ** (1.0 - _ANNEALED * fraction) for count in rows.values()]
    return [share / sum(shares) for share in shares]


def mixed(
    streams: Mapping[str, Since], draw: Callable[[int], Sequence[str]], start: int = 0
) -> Iterator[list[Batch]]:
    """Yield steps from ``start`` on, each a batch of every data set that ``draw(step)`` names.

    The position in each stream is recounted from the draws, so no state is stored to resume.
    """
    used = Counter(name for step in range(start) for name in draw(step))
    following = {name: since(used[name]) for name, since in streams.items()}
    for step in itertools.count(start):
        yield [next(following[name]) for name in draw(step)]
