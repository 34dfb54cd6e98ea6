"""Actor that hosts a teacher and serves several students at once.

Token ids are sent as int32, masks and segments as int8; texts to teachers with another tokenizer.
Logits of classes and spans are sent as float16 (relative rounding 2^-11; two logits closer than
that may swap order), numbers of a regression as float32.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from road_ray.data.batching import INPUTS
from road_ray.data.task_and_dataset import Kind, Regress, Span, Tag, Task
from road_ray.distillation.ensemble.local_ensemble import PLAIN, TeacherOptions
from road_ray.distillation.ensemble.teacher import Teacher, inputs_of
from road_ray.distributed.teachers.request_batcher import Answers, Batcher, Inputs, Stats
from road_ray.errors import CheckpointError


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """Settings of a teacher process, and of the batches it forms from requests of several
    students.
    """

    num_threads: int = 1
    device: str = "cpu"
    teacher: TeacherOptions = PLAIN
    max_rows: int = 256  # of a merged batch
    wait_seconds: float = 0.002  # that a request waits for other students


class TeacherActor:
    """Actor that serves teacher logits. Ray can rebuild it from its constructor's arguments."""

    def __init__(self, directory: str, task: Task, hosting: Hosting = Hosting()) -> None:
        self._teacher = hosting.teacher.load(directory, task, hosting.device)
        self._batcher = Batcher(
            self._forward,
            max_rows=hosting.max_rows,
            wait_seconds=hosting.wait_seconds,
            token_axis=token_axis(task.kind),
            begin=lambda: torch.set_num_threads(hosting.num_threads),
        )

    def logits(self, inputs: Inputs, caller: str = "") -> tuple[NDArray[np.generic], float, Stats]:
        """Return the packed logits ``[B, ..., L] -> [B, ..., C]``, the seconds of the forward pass,
        and the figures of the teacher.

        Thread-safe; requests of different callers share a forward pass.
        """
        (answer,), seconds = self._batcher.infer(inputs, caller)
        return answer, seconds, self._teacher.stats

    def health(self) -> int:
        """Return the process id, once the teacher is loaded; it does not wait for queued
        requests.
        """
        return os.getpid()

    def _forward(self, inputs: Inputs) -> Answers:
        tensors: dict[str, Any] = {
            name: array if name == "texts" else torch.tensor(array)
            for name, array in inputs.items()
        }
        return [packed_logits(self._teacher, tensors)]


def packed_inputs(batch: Mapping[str, object]) -> Inputs:
    """Return the inputs of a teacher from a batch, packed for transfer. ``[B, L]`` each."""
    small = dict.fromkeys(INPUTS, torch.int8) | {"input_ids": torch.int32}
    return {
        name: value.detach().cpu().to(small.get(name, torch.int32)).numpy()
        if isinstance(value, torch.Tensor)
        else value
        for name, value in inputs_of(batch).items()
    }


def packed_logits(teacher: Teacher, inputs: Mapping[str, Any]) -> NDArray[np.generic]:
    """Return a teacher's logits, packed for transfer.

    Raises ``CheckpointError`` if they do not fit float16.
    """
    answer: NDArray[np.generic] = teacher.logits(**inputs).cpu().numpy()
    if isinstance(teacher.task.kind, Regress):
        return answer
    limit = float(np.finfo(np.float16).max)
    if np.abs(answer).max(initial=0.0) > limit:
        raise CheckpointError(
            f"{teacher.directory}: logits beyond {limit:g} do not fit float16\n"
            "  fix: distillation.host: process"
        )
    return answer.astype(np.float16)


def token_axis(kind: Kind) -> int | None:
    """Return the axis of the logits that is as long as the tokens: of ``[B, 2, L]``, of ``[B, L,
    C]``.
    """
    return -1 if isinstance(kind, Span) else -2 if isinstance(kind, Tag) else None
