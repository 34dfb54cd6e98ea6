"""Actor that hosts a teacher.

Token ids are sent as int32, masks and segments as int8; texts to teachers with another tokenizer.
Logits of classes and spans are sent as float16 (relative rounding 2^-11; two logits closer than
that may swap order), numbers of a regression as float32.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from road_ray.data.batching import INPUTS
from road_ray.data.task_and_dataset import Regress, Task
from road_ray.distillation.teacher import PLAIN, Teacher, TeacherOptions, inputs_of
from road_ray.errors import CheckpointError

Inputs = Mapping[str, NDArray[np.generic]]
Answer = tuple[NDArray[np.generic], float, Mapping[str, float]]
"""Packed logits ``[B, ..., C]``, seconds of the forward pass, figures of the teacher."""


class TeacherActor:
    """Actor that answers one request after the other. Ray can rebuild it from its constructor's
    arguments.
    """

    def __init__(
        self,
        directory: str,
        task: Task,
        options: TeacherOptions = PLAIN,
        device: str = "cpu",
        num_threads: int = 1,
    ) -> None:
        self._teacher = options.load(directory, task, device)
        self._num_threads = num_threads

    def logits(self, inputs: Inputs) -> Answer:
        """Return the packed logits of a batch, ``[B, ..., L] -> [B, ..., C]``, with the seconds of
        the forward pass and the figures of the teacher.
        """
        torch.set_num_threads(self._num_threads)  # of the thread that Ray calls this in
        began = time.perf_counter()
        tensors: dict[str, Any] = {
            name: array if name == "texts" else torch.tensor(array)
            for name, array in inputs.items()
        }
        answer = packed_logits(self._teacher, tensors)
        return answer, time.perf_counter() - began, self._teacher.stats

    def health(self) -> int:
        """Return the process id, once the teacher is loaded; it does not wait for queued
        requests.
        """
        return os.getpid()


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
