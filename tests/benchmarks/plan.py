"""How the benchmarks are run, and what each gives."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from road_ray.models.config import EncoderConfig
from road_ray.models.precision import autocast_dtype
from tests.benchmarks import race
from tests.benchmarks.finetuning import Study
from tests.benchmarks.race import Contestants, Start, Timing, in_process
from tests.benchmarks.shapes import Shape, device

Row = dict[str, Any]
_TINY = Shape(EncoderConfig(layers=4), vocab_size=8000, batch_size=16, length=64)
_BASE = EncoderConfig(
    layers=12, hidden_size=768, heads=12, intermediate_size=3072, embedding_size=768
)
_WIDE = 1024  # where bf16 gains if the device has instructions for it


def native_precisions() -> tuple[str, ...]:
    """Those that the device multiplies in; emulated bf16 is tens of times slower than fp32."""
    native = autocast_dtype("auto", device(), _WIDE) is not None
    return ("fp32", "bf16") if native else ("fp32",)


def row(
    name: str, peer: str, unit: str, ours: float, theirs: float, *, precision: str, **facts: Any
) -> Row:
    """A row of bench.json: ``ours`` and ``theirs`` in ``unit``, of which more is better."""
    row: Row = {"name": name, "precision": precision, "peer": peer, "unit": unit}
    return row | {"ours": ours, "theirs": theirs, "ratio": ours / theirs} | facts


def race_row(
    name: str,
    peer: str,
    precision: str,
    both: tuple[Timing, Timing],
    unit: str,
    amount: float,
    limit_seconds: float,
) -> Row:
    """A row of ``both`` contestants, ours first, whose steps are ``amount`` units of work each."""
    return row(
        name,
        peer,
        unit,
        *(amount / timing.median for timing in both),
        repeats=len(both[0].seconds),
        precision=precision,
        peak_memory_mb=both[0].peak_memory_mb,
        their_peak_memory_mb=both[1].peak_memory_mb,
        limit_share=limit_seconds / both[0].median,
    )


@dataclass(frozen=True)
class Plan:
    """How the benchmarks are run; the defaults are what ``make bench`` does on a CPU."""

    shapes: dict[str, Shape] = field(default_factory=lambda: {"pretrain": Shape()})
    tiny: Shape = _TINY
    lessons: dict[str, Shape] = field(
        default_factory=lambda: {
            "sentiment": Shape(batch_size=32, length=64),
            "mrc": Shape(batch_size=8, length=384),
        }
    )
    studies: tuple[Study, ...] = (Study("sst2", 512, 32), Study("squad_v2", 96, 8))
    predicting: Study = field(default_factory=lambda: Study("sst2", 4000, 32))
    repeats: int = 7
    few_repeats: int = 3  # where a round takes half a minute
    quick_repeats: int = 25  # where a step takes a fraction of a second
    clients: tuple[int, ...] = (1, 8, 32)  # of a server, at once
    load_seconds: float = 5.0  # of a round of requests
    steps: int = 1  # of a round
    lesson_steps: int = 4
    precisions: tuple[str, ...] = field(default_factory=native_precisions)
    compiled: tuple[bool, ...] = (False,)
    until: float | None = None  # of time.monotonic(): no further round of a race begins then
    clock: str = "wall"
    start: Start = in_process

    @classmethod
    def of_device(cls, **options: Any) -> Plan:
        """The sizes for a device with 16 GB or more."""
        sizes: dict[str, Any] = {
            "shapes": {
                "pretrain": Shape(batch_size=128, length=128),
                "pretrain_base": Shape(encoder=_BASE, batch_size=32, length=512),
            },
            "lessons": {
                "sentiment": Shape(batch_size=128, length=64),
                "mrc": Shape(batch_size=32, length=384),
            },
            "studies": (Study("sst2", 8192, 32), Study("squad_v2", 1024, 32)),
            "steps": 10,  # without a wait between them
            "lesson_steps": 10,
            "compiled": (False, True),
        }
        return cls(**sizes | options)

    def race(
        self, lanes: Contestants, *, repeats: int, warmup: int = 2, **starts: Start
    ) -> dict[Any, Timing]:
        """``race`` that ends in time; ``starts`` are those that are not started like the others. A
        device holds one contestant after the other, so that the memory of each is its own.
        """
        how = dict.fromkeys(lanes, self.start) | starts
        rounds: dict[str, Any] = {"repeats": repeats, "warmup": warmup}
        rounds |= {"until": self.until, "clock": self.clock}
        if device().type != "cuda":
            return race.race(lanes, how, **rounds)
        return {name: race.race({name: lanes[name]}, how, **rounds)[name] for name in lanes}

    def within(self, seconds: float) -> Plan:
        """The same plan, whose races end within these seconds."""
        return replace(self, until=time.monotonic() + seconds)

    def pairs(self, *pairs: tuple[str, str]) -> list[tuple[str, str]]:
        """Those pairs of precisions that the device has."""
        return [pair for pair in pairs if set(pair) <= set(self.precisions)]
