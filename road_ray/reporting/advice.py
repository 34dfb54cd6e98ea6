"""Time split of a training step and advice on its bottleneck."""

from __future__ import annotations

import math
from collections.abc import Iterable

from road_ray.reporting.records.run_record import RunRecord

TimeSplit = dict[str, float]
DATA, TEACHERS, MODEL, COMMUNICATION = "data", "waiting for teachers", "model", "communication"
_MUCH = 0.10  # least share of a step for advice on a part of it


def time_split(run: RunRecord) -> TimeSplit | None:
    """Return the seconds of a mean step by activity, or None if no step was timed.

    The wait for teachers happens while the next batch is fetched, so it is subtracted from the data
    time.
    """
    step = _mean(run, "time/step_seconds")
    if not step:
        return None
    teachers = min(_mean(run, "time/teacher_wait_seconds"), step)
    data = max(_mean(run, "time/data_seconds") - teachers, 0.0)
    communication = _mean(run, "time/communication_seconds")
    student = max(step - data - teachers - communication, 0.0)
    return {DATA: data, TEACHERS: teachers, MODEL: student, COMMUNICATION: communication}


def _mean(run: RunRecord, name: str) -> float:
    """Return the mean over the run without its first row, which includes the start-up."""
    values = [value for _, value in run.series(name)]
    values = values[1:] if len(values) > 2 else values
    return sum(values) / len(values) if values else 0.0


def advice(run: RunRecord, split: TimeSplit) -> list[str]:
    """Return sentences about the bottleneck with the key to change, the most important first."""
    sentences = [*_teachers(run, split), *_data_and_communication(split)]
    if not sentences:
        share = split[MODEL] / sum(split.values())
        sentences.append(
            f"No bottleneck: {share:.0%} of a step is the model itself. To go faster, use fewer "
            "tokens (data.max_length_tokens), lower precision on a GPU, or more workers."
        )
    return sentences


def _teachers(run: RunRecord, split: TimeSplit) -> Iterable[str]:
    step, share = sum(split.values()), split[TEACHERS] / sum(split.values())
    settings = run.settings
    host = settings.get("distillation.host")
    if share < _MUCH:
        return
    lost = f"{share:.0%} of a step is spent waiting for teachers"
    lookahead = settings.get("distillation.lookahead", 2)
    busy = _mean(run, "time/teacher_busy_seconds")  # of the slowest teacher, for one step
    if host == "process":
        yield (
            f"{lost}: they run in this process, one after the other. "
            "distillation.host=actors gives them their own cores or GPUs, beside the student."
        )
    elif share > 0.35 or busy > 0.9 * (step - split[TEACHERS]):
        replicas = int(settings.get("distillation.replicas", 1))
        needed = max(replicas + 1, math.ceil(busy / max(step - split[TEACHERS], 1e-9)))
        yield (
            f"{lost}: they are slower than the student. Add a replica of each teacher "
            f"(distillation.replicas={needed}) or give them more (distillation.cpus_per_teacher, "
            "distillation.gpus_per_teacher)."
        )
    else:
        yield (
            f"{lost}: they are almost fast enough. Raise distillation.lookahead ({lookahead}) "
            "to even out slow batches."
        )
    if settings.get("distillation.answers") != "once" and not settings.get("distillation.store"):
        yield (
            "The teachers answer in every epoch. With distillation.answers=once they answer each "
            "row once, before the first step; later epochs, resumes and trials read it from disk."
        )


def _data_and_communication(split: TimeSplit) -> Iterable[str]:
    data, communication = (split[part] / sum(split.values()) for part in (DATA, COMMUNICATION))
    if data >= _MUCH:
        yield (
            f"{data:.0%} of a step goes into making batches. Shorter rows "
            "(data.max_length_tokens) or fewer, larger passes reduce it."
        )
    if communication >= 2 * _MUCH:
        yield (
            f"{communication:.0%} of a step is communication between workers. "
            "A larger data.batch_size or more training.passes per step needs fewer exchanges."
        )
