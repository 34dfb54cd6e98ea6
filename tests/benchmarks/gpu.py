"""What a device makes of the training step: ``python -m tests.benchmarks gpu`` writes it all.

Contestants run one after the other, each in a process of its own, so that the memory of each is its
own too. A round is several steps without a wait between them. What has no time left is left out and
named, so the file always says what was measured and what was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

import torch

from road_ray.models.config import EncoderConfig
from road_ray.training.profile import measured_peak_flops
from tests.benchmarks import contestants, distil, finetuning
from tests.benchmarks.contestants import Setting
from tests.benchmarks.distil import Lesson
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row, native_precisions
from tests.benchmarks.race import Contestant, Main, Over, Timing, race
from tests.benchmarks.shapes import QUESTIONS, TOY, Shape, device, flops

_BASE = EncoderConfig(
    layers=12, hidden_size=768, heads=12, intermediate_size=3072, embedding_size=768
)
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class GpuPlan:
    """Sizes and time; the defaults are for one device with 16 GB or more."""

    shapes: dict[str, Shape] = field(
        default_factory=lambda: {
            "small": Shape(batch_size=128, length=128),
            "base": Shape(encoder=_BASE, batch_size=32, length=512),
        }
    )
    lessons: dict[str, Shape] = field(
        default_factory=lambda: {
            "sentiment": Shape(batch_size=128, length=64),
            "mrc": Shape(batch_size=32, length=384),
        }
    )
    studies: tuple[Study, ...] = (Study("sst2", 8192, 32), Study("squad_v2", 1024, 32))
    steps: int = 10  # of a round
    rounds: int = 5
    profiled_steps: int = 10
    precision: str = field(default_factory=lambda: native_precisions()[-1])
    compiled: tuple[bool, ...] = (False, True)
    minutes: float = 10.0
    start: Callable[[Main, Any, str], Any] = field(default_factory=lambda: Plan().start)
    say: Callable[[str], None] = print

    @classmethod
    def toy(cls, **options: Any) -> GpuPlan:
        """Sizes that a CPU runs in a minute, without a compiler: a trial of the command alone."""
        sizes: dict[str, Any] = {
            "shapes": {"small": TOY},
            "lessons": {"sentiment": TOY, "mrc": TOY},
            "studies": (Study("sst2", 8, 4, TOY.encoder), Study("squad_v2", 4, 4, QUESTIONS)),
            "steps": 2,
            "rounds": 2,
            "profiled_steps": 2,
            "precision": "fp32",
            "compiled": (False,),
        }
        return cls(**sizes | options)


@dataclass(frozen=True)
class _Lane:
    """One contestant, and what its seconds mean."""

    table: str
    name: str
    main: Main
    setting: Any
    of_step: Callable[[float], Row]  # seconds of a step to figures
    rounds: int


def gpu(plan: GpuPlan) -> dict[str, Any]:
    """Everything, as one object of JSON: the device, the figures, and what was left out."""
    end, rows, left_out = time.monotonic() + 60 * plan.minutes, list[Row](), list[str]()
    for lane in _lanes(plan):
        called = f"{lane.table}: {lane.name}"
        if time.monotonic() > end:
            left_out.append(f"{called}: no time left")
            continue
        began = time.monotonic()
        try:
            lanes = {lane.name: Contestant(lane.main, lane.setting, plan.start)}
            timing = race(lanes, repeats=lane.rounds, warmup=1, until=end)[lane.name]
        except Exception as error:  # out of memory, or a compiler that fails: the others go on
            left_out.append(f"{called}: {type(error).__name__}: {str(error)[:200]}")
            continue
        rows.append(_row(lane, timing))
        plan.say(
            f"  {called}: {rows[-1]['value']:.4g} {rows[-1]['unit']}"
            f" ({time.monotonic() - began:.0f} s)"
        )
    return {"device": _device(plan), "rows": rows, "left_out": left_out}


def _row(lane: _Lane, timing: Timing) -> Row:
    return {
        "table": lane.table,
        "name": lane.name,
        "rounds": len(timing.seconds),
        "peak_memory_mb": timing.peak_memory_mb,
        **lane.of_step(timing.median),
    }


def _device(plan: GpuPlan) -> Row:
    kind = device().type
    name = torch.cuda.get_device_name() if kind == "cuda" else "cpu"
    return {
        "name": name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "precision": plan.precision,
        "peak_tflops": measured_peak_flops(kind, _DTYPES[plan.precision]) / 1e12,
    }


def _lanes(plan: GpuPlan) -> list[_Lane]:
    """What is not compiled first: compilation takes minutes, and time may run out."""
    lanes = [lane for size in plan.shapes for lane in _pretraining(plan, size, compiled=False)]
    lanes += [_idle(plan, size) for size in plan.shapes]
    lanes += [lane for study in plan.studies for lane in _finetuning(plan, study)]
    lanes += [lane for task in plan.lessons for lane in _distilling(plan, task)]
    for size in plan.shapes if True in plan.compiled else ():
        lanes += _pretraining(plan, size, compiled=True)
    return lanes


def _pretraining(plan: GpuPlan, size: str, *, compiled: bool) -> list[_Lane]:
    shape = plan.shapes[size]
    setting = Setting(shape, precision=plan.precision, steps=plan.steps, compiled=compiled)
    peers: dict[str, tuple[Main, Any]] = {
        "ours": (contestants.ours, setting),
        "plain transformers": (contestants.plain, replace(setting, sampling="chosen")),
    }
    if find_spec("electra_pytorch") is not None:
        peers["electra-pytorch"] = (contestants.electra_pytorch, setting)

    def of_step(seconds: float) -> Row:
        peak = measured_peak_flops(device().type, _DTYPES[plan.precision])
        return {
            "value": shape.tokens / seconds,
            "unit": "tokens/s",
            "mfu": flops(shape) / seconds / peak,
        }

    how = ", compiled" if compiled else ""
    return [
        _Lane(f"pretrain {size}", f"{name}{how}", main, peer, of_step, plan.rounds)
        for name, (main, peer) in peers.items()
    ]


def _idle(plan: GpuPlan, size: str) -> _Lane:
    setting = Setting(plan.shapes[size], precision=plan.precision, steps=plan.profiled_steps)
    main = partial(profiled, contestants.ours)
    as_share: Callable[[float], Row] = lambda share: {"value": share, "unit": "share idle"}  # noqa: E731
    return _Lane(f"pretrain {size}", "ours, device idle", main, setting, as_share, 1)


def _finetuning(plan: GpuPlan, study: Study) -> list[_Lane]:
    variant = replace(study, precision=plan.precision)
    mains = {"ours": finetuning.ours, "Trainer": finetuning.hugging_face}

    def of_step(seconds: float) -> Row:
        return {"value": study.examples / seconds, "unit": "examples/s"}

    table = f"finetune {study.dataset}"
    return [_Lane(table, name, main, variant, of_step, 2) for name, main in mains.items()]


def _distilling(plan: GpuPlan, task: str) -> list[_Lane]:
    lesson = Lesson(task, plan.lessons[task], precision=plan.precision, steps=plan.steps)
    mains = {"no teachers": distil.no_teachers, "ours, 3 teachers": distil.in_process}
    if find_spec("textbrewer") is not None:
        mains["TextBrewer, 3 teachers"] = distil.in_textbrewer

    def of_step(seconds: float) -> Row:
        return {"value": lesson.shape.batch_size / seconds, "unit": "examples/s"}

    table = f"distil {task}"
    return [_Lane(table, name, main, lesson, of_step, plan.rounds) for name, main in mains.items()]


class _Profiling:
    """The referee's side of a contestant in this process, which profiles the last of its rounds."""

    def __init__(self, rounds: int) -> None:
        self._left, self.idle = rounds, 0.0
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=kinds)

    def recv_bytes(self) -> bytes:
        """Say go, so many times."""
        self._left -= 1
        if self._left == 0:
            self._profile.start()
        return b"go" if self._left >= 0 else b"end"

    def send_bytes(self, _: bytes) -> None:
        """Take the seconds of a round, or that it is ready."""
        if self._left == 0:
            self._profile.stop()
            self.idle = idle_share(_kernels(self._profile.events()))


def profiled(main: Main, setting: Any, connection: Connection) -> None:
    """``main``, whose second round is profiled: instead of its seconds it tells the idle share."""
    connection.send_bytes(b"ready")
    while connection.recv_bytes() == b"go":
        watch: Any = _Profiling(2)
        try:
            main(setting, watch)
        except Over:
            connection.send_bytes(repr(watch.idle).encode())
    raise Over


def _kernels(events: Sequence[Any]) -> list[tuple[float, float]]:
    """Begin and end of what ran on the device; without one, of the operators of the host."""
    wanted = torch.autograd.DeviceType.CUDA if torch.cuda.is_available() else None
    return [
        (event.time_range.start, event.time_range.end)
        for event in events
        # Ranges that are marked by hand, such as a step of the optimizer, span gaps.
        if wanted is None or (event.device_type == wanted and not event.is_user_annotation)
    ]


def idle_share(busy: Sequence[tuple[float, float]]) -> float:
    """Return the share of the time from the first begin to the last end in which nothing ran."""
    ordered = sorted(busy)
    if not ordered:
        return 1.0
    first, reached, idle = ordered[0][0], ordered[0][0], 0.0
    for begin, end in ordered:
        idle += max(0.0, begin - reached)
        reached = max(reached, end)
    return idle / max(reached - first, 1e-9)
