"""Where the time of a run went, and what would make it shorter."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from road_ray.reporting.run_record import RunRecord

_MUCH = 0.10  # of a step: what is worth a sentence
_SLACK = 1.3  # slowest stretch against the median: what is worth a sentence


@dataclass(frozen=True)
class TimeSplit:
    """Seconds of a mean step, by what they were spent on."""

    data: float
    teachers: float
    student: float
    communication: float

    @property
    def step(self) -> float:
        """The whole step."""
        return self.data + self.teachers + self.student + self.communication

    def parts(self) -> list[tuple[str, float]]:
        """Name and seconds, in the order of a step."""
        return [
            ("data", self.data),
            ("waiting for teachers", self.teachers),
            ("model", self.student),
            ("communication", self.communication),
        ]


def time_split(run: RunRecord) -> TimeSplit | None:
    """The mean step of a run; None where no step was timed.

    Waiting for teachers happens while the next batch is fetched, so it is taken out of the data's
    time.
    """
    whole = _mean(run, "time/step_seconds")
    if not whole:
        return None
    teachers = min(_mean(run, "time/teacher_wait_seconds"), whole)
    data = max(_mean(run, "time/data_seconds") - teachers, 0.0)
    communication = _mean(run, "time/communication_seconds")
    student = max(whole - data - teachers - communication, 0.0)
    return TimeSplit(data, teachers, student, communication)


def _mean(run: RunRecord, name: str) -> float:
    """Mean over the run without its first row, which has start-up in it, where there are others."""
    values = [value for _, value in run.series(name)]
    values = values[1:] if len(values) > 2 else values
    return sum(values) / len(values) if values else 0.0


def advice(run: RunRecord, split: TimeSplit) -> list[str]:
    """Sentences about the bottleneck, each with the key to turn; the weightiest first."""
    found = [*_teachers(run, split), *_others(split), *_unsteady(run)]
    if not found:
        whole = split.student / split.step
        found.append(
            f"Nothing to mend: {whole:.0%} of a step is the model itself. Faster means fewer "
            "tokens (data.max_length_tokens), lower precision on a GPU, or more workers."
        )
    return found


def _teachers(run: RunRecord, split: TimeSplit) -> Iterable[str]:
    share = split.teachers / split.step
    settings = run.settings
    host = settings.get("distillation.host")
    if any(event.get("kind") == "store_complete" for event in run.events):
        yield (
            "The store is complete: from there on every row came out of it. The teachers may be "
            "released, and later runs and trials on the same rows need none."
        )
        return
    if share < _MUCH:
        return
    lost = f"{share:.0%} of a step is spent waiting for teachers"
    lookahead = settings.get("distillation.lookahead", 2)
    busy = _mean(run, "time/teacher_busy_seconds")  # of the slowest teacher, for one step
    if host == "process":
        yield (
            f"{lost}: they run in this very process, one after the other. "
            "distillation.host=actors puts them on cores or GPUs of their own, beside the student."
        )
    elif share > 0.35 or busy > 0.9 * (split.step - split.teachers):
        replicas = int(settings.get("distillation.replicas", 1))
        wanted = max(replicas + 1, math.ceil(busy / max(split.step - split.teachers, 1e-9)))
        yield (
            f"{lost}: they are slower than the student. Add a replica of each teacher "
            f"(distillation.replicas={wanted}) or give them more (distillation.cpus_per_teacher, "
            "gpus_per_teacher)."
        )
    else:
        yield (
            f"{lost}: they nearly keep up. Raise distillation.lookahead (now {lookahead}), "
            "so that slow batches are evened out."
        )
    if not settings.get("distillation.store"):
        yield (
            "No store is in use: with distillation.store each row is asked for once, and later "
            "epochs, resumes and trials read it at the speed of a disk."
        )


def _others(split: TimeSplit) -> Iterable[str]:
    if split.data / split.step >= _MUCH:
        yield (
            f"{split.data / split.step:.0%} of a step goes into making batches. Shorter rows "
            "(data.max_length_tokens) or fewer, larger passes take it down."
        )
    if split.communication / split.step >= 2 * _MUCH:
        yield (
            f"{split.communication / split.step:.0%} of a step is communication between workers. "
            "A larger data.batch_size or more training.passes a step means fewer exchanges."
        )


def _unsteady(run: RunRecord) -> Iterable[str]:
    times = sorted(value for _, value in run.series("time/step_seconds")[1:])
    if len(times) >= 4 and times[-1] > _SLACK * times[len(times) // 2]:
        factor = times[-1] / times[len(times) // 2]
        yield (
            f"Steps are uneven: the slowest stretch took {factor:.1f} times the median. "
            "Something else may have been running on this machine."
        )
