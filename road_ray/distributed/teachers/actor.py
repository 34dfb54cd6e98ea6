"""The actor that hosts teachers: one or several behind one method, asked by many students at once.

Token ids travel as int32, masks and segments as int8. Logits of classes and spans travel as float16
(relative rounding 2^-11, and two logits closer than that may swap their order); numbers of a
regression travel as float32.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from road_ray.data.batching import INPUTS
from road_ray.data.schema import Kind, Regress, Span, Tag, Task
from road_ray.distillation.ensemble.base import Teacher, inputs_of
from road_ray.distributed.teachers.request_batcher import Answers, Batcher, Inputs
from road_ray.errors import CheckpointError
from road_ray.models.config import Precision


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """How one process hosts teachers, and how it joins the requests of several students."""

    num_threads: int = 1
    device: str = "cpu"
    label_map: Mapping[str, str] | None = None
    precision: Precision = "auto"
    max_rows: int = 256  # of a joined batch
    wait_seconds: float = 0.002  # that a request waits for those of other students


class TeacherActor:
    """Teachers of one process; Ray can rebuild it from the arguments of its constructor."""

    def __init__(
        self, directories: Sequence[str], task: Task, hosting: Hosting = Hosting()
    ) -> None:
        self._teachers = [
            Teacher(
                place,
                task,
                label_map=hosting.label_map,
                device=hosting.device,
                precision=hosting.precision,
            )
            for place in directories
        ]
        self._batcher = Batcher(
            self._answer,
            max_rows=hosting.max_rows,
            wait_seconds=hosting.wait_seconds,
            token_axis=token_axis(task.kind),
            begin=lambda: torch.set_num_threads(hosting.num_threads),
        )

    def logits(self, inputs: Inputs, caller: str = "") -> tuple[Answers, float]:
        """``[B, ..., L] -> [B, ..., C]`` of each teacher, as it travels, and the seconds it took.

        May be called from many threads; requests of different callers are joined.
        """
        return self._batcher.ask(inputs, caller)

    def health(self) -> int:
        """The process id, once the teachers are loaded; answered while requests are queued."""
        return os.getpid()

    def _answer(self, inputs: Inputs) -> Answers:
        tensors = {name: torch.tensor(array) for name, array in inputs.items()}
        return [packed_logits(teacher, tensors) for teacher in self._teachers]


def packed_inputs(batch: Mapping[str, Any]) -> Inputs:
    """What a teacher reads of a batch, as it travels. ``[B, L]`` each."""
    small = {name: torch.int32 if name == "input_ids" else torch.int8 for name in INPUTS}
    given = inputs_of(batch).items()
    return {name: tensor.detach().cpu().to(small[name]).numpy() for name, tensor in given}


def packed_logits(teacher: Teacher, inputs: Mapping[str, torch.Tensor]) -> NDArray[Any]:
    """What a teacher says, as it travels. Raises ``CheckpointError`` beyond float16."""
    answer: NDArray[Any] = teacher.logits(**inputs).cpu().numpy()
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
    """The axis of an answer that is as long as the tokens: of ``[B, 2, L]``, of ``[B, L, C]``."""
    return -1 if isinstance(kind, Span) else -2 if isinstance(kind, Tag) else None
