"""Training steps as lists of passes: gradient accumulation, data sets drawn at random (ROaD), and
the row lengths of a pre-training, short ones first and long ones at its end, as in BERT.

The data sets and the phase of a step follow from its number, so steps are a pure function of the
seed.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from road_ray.data.batching import Batch, BatchStream, BatchTotals
from road_ray.data.config import CorpusConfig, Sampler
from road_ray.errors import ConfigError

_ANNEALED = 0.8  # by which the exponent of the number of rows falls, from 1 at the first step


Since = Callable[[int], Iterator[Batch]]
"""Yields batches ``number``, ``number + 1``, ... of one data set, without end."""


def accumulated(batches: Iterable[Batch], passes: int) -> Iterator[list[Batch]]:
    """Yield steps of ``passes`` consecutive batches; an incomplete last step is dropped."""
    for group in zip(*[iter(batches)] * passes, strict=False):
        yield list(group)


def with_fraction_done(
    steps: Iterable[list[Batch]], *, start: int, total: int
) -> Iterator[list[Batch]]:
    """Yield the steps with the ``fraction`` of training that is done, from 0, in every batch.

    It depends on the step alone, so a resumed run sees the same batches.
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
    streams: Mapping[str, Since], draw: Callable[[int], Sequence[str]], *, start: int = 0
) -> Iterator[list[Batch]]:
    """Yield steps from ``start`` on, each a batch of every data set that ``draw(step)`` names.

    The position in each stream is recounted from the draws, so no state is stored to resume.
    """
    used = Counter(name for step in range(start) for name in draw(step))
    following = {name: since(used[name]) for name, since in streams.items()}
    for step in itertools.count(start):
        yield [next(following[name]) for name in draw(step)]


@dataclass(frozen=True)
class Phase:
    """Consecutive steps on rows of one length."""

    start: int  # its first step, counted from 0
    end: int  # the first step after it
    max_length_tokens: int
    batch_size: int  # global, in rows
    seed: int

    @property
    def steps(self) -> int:
        """Number of updates."""
        return self.end - self.start

    def corpus(self, data: CorpusConfig) -> CorpusConfig:
        """Return the configuration of the same text in rows of this length."""
        return data.model_copy(update={"max_length_tokens": self.max_length_tokens})


def phases_of(data: CorpusConfig, total_steps: int, *, seed: int) -> tuple[Phase, ...]:
    """Return the phases of ``data.shorter_first`` by length, then that of ``max_length_tokens``.

    The first has ``seed`` itself, so it equals the beginning of a training with its length alone.
    Raises ``ConfigError`` for a phase without a step.
    """
    shorter = sorted(data.shorter_first.items())
    shares = itertools.accumulate((phase.fraction for _, phase in shorter), initial=0.0)
    borders = [*(round(share * total_steps) for share in shares), total_steps]
    lengths = [*(length for length, _ in shorter), data.max_length_tokens]
    sizes = [*(phase.batch_size or data.batch_size for _, phase in shorter), data.batch_size]
    parts = zip(itertools.pairwise(borders), lengths, sizes, strict=True)
    # Later ones have seeds of their own, as equal seeds would draw equal noise.
    numbers = range(1, len(lengths))
    later = [np.random.SeedSequence((seed, 5, n)).generate_state(1)[0] for n in numbers]
    phases = tuple(
        Phase(start, end, length, size, int(own))
        for own, ((start, end), length, size) in zip([seed, *later], parts, strict=True)
    )
    for phase in phases:
        if phase.steps < 1:
            listed = ", ".join(f"{length}: {config.fraction:g}" for length, config in shorter)
            raise ConfigError(
                f"data.shorter_first = {{{listed}}} of training.steps = {total_steps}: rows of "
                f"{phase.max_length_tokens} tokens get no step\n"
                "  allowed: at least one step for each length\n"
                "  fix: more training.steps, or other fractions"
            )
    return phases


@dataclass(frozen=True)
class ScheduledSteps:
    """Steps of a training, each of ``passes`` batches of its phase."""

    phases: tuple[Phase, ...]
    streams: tuple[BatchStream, ...]  # one a phase, each counting its batches from 0
    passes: int

    def since(self, step: int) -> Iterator[list[Batch]]:
        """Yield the batches of ``step``, ``step + 1``, ...; the last phase has no end."""
        *earlier, last = zip(self.phases, self.streams, strict=True)
        for phase, stream in earlier:
            if step < phase.end:
                yield from itertools.islice(self._within(phase, stream, step), phase.end - step)
                step = phase.end
        yield from self._within(*last, step)

    def totals(self) -> list[BatchTotals]:
        """Return the sizes of all batches of each phase."""
        parts = zip(self.phases, self.streams, strict=True)
        return [stream.totals(phase.steps * self.passes) for phase, stream in parts]

    def _within(self, phase: Phase, stream: BatchStream, step: int) -> Iterator[list[Batch]]:
        return accumulated(stream.since((step - phase.start) * self.passes), self.passes)
