"""Schedule of row lengths in a pre-training: short rows first, long ones at its end, as in BERT.

The phase of a step follows from its number, so steps are a pure function of the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

import numpy as np

from road_ray.data.batching import Batch, Batching, BatchStream, BatchTotals
from road_ray.data.config import CorpusConfig
from road_ray.data.mixing import accumulated
from road_ray.data.shuffle_into_batches import Windows
from road_ray.errors import ConfigError


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

    def batching(self, windows: Windows | None = None) -> Batching:
        """Return the batching of its rows."""
        return Batching(self.batch_size, self.seed, windows=windows)

    def corpus(self, data: CorpusConfig) -> CorpusConfig:
        """Return the configuration of the same text in rows of this length."""
        return data.model_copy(update={"max_length_tokens": self.max_length_tokens})


def phases_of(data: CorpusConfig, total_steps: int, *, seed: int) -> tuple[Phase, ...]:
    """Return the phases of ``data.shorter_first`` by length, then that of ``max_length_tokens``.

    The first has ``seed`` itself, so it equals the beginning of a training with its length alone.
    Raises ``ConfigError`` for a phase without a step.
    """
    shorter = sorted(data.shorter_first.items())
    shares = accumulate((phase.fraction for _, phase in shorter), initial=0.0)
    borders = [*(round(share * total_steps) for share in shares), total_steps]
    lengths = [*(length for length, _ in shorter), data.max_length_tokens]
    sizes = [*(phase.batch_size or data.batch_size for _, phase in shorter), data.batch_size]
    parts = zip(pairwise(borders), lengths, sizes, strict=True)
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


def tokens_before(phases: Sequence[Phase], step: int) -> float:
    """Return the tokens of full rows before ``step``, an estimate of the work done."""
    return sum(
        float(phase.batch_size * phase.max_length_tokens * min(step - phase.start, phase.steps))
        for phase in phases
        if step > phase.start
    )


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
                yield from islice(self._within(phase, stream, step), phase.end - step)
                step = phase.end
        yield from self._within(*last, step)

    def totals(self) -> list[BatchTotals]:
        """Return the sizes of all batches of each phase."""
        parts = zip(self.phases, self.streams, strict=True)
        return [stream.totals(phase.steps * self.passes) for phase, stream in parts]

    def _within(self, phase: Phase, stream: BatchStream, step: int) -> Iterator[list[Batch]]:
        return accumulated(stream.since((step - phase.start) * self.passes), self.passes)
