"""Teachers in this process, of the student's tokenizer or of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble.cross_tokenizer.text_teacher import TextTeacher
from road_ray.distillation.ensemble.protocol import OWN_TOKENS, Ensemble, numbered, stacked
from road_ray.distillation.ensemble.teacher import Teacher, inputs_of
from road_ray.distillation.teacher_directory import reads_other_tokens
from road_ray.errors import ConfigError
from road_ray.models.config import TeacherPrecision
from road_ray.models.heads.label_order import LabelMap


@dataclass(frozen=True, kw_only=True)
class TeacherOptions:
    """Options with which teachers are loaded, the same in actors, in this process and for the check
    of their parity.

    ``student`` is the fingerprint of the student's tokenizer: teachers with another one read texts.
    None: all have the student's.
    """

    student: str | None = None
    label_map: LabelMap | None = None
    precision: TeacherPrecision = "auto"
    compiled: bool = False

    def load(
        self, directory: str | Path, task: Task, device: str | torch.device = "cpu"
    ) -> Teacher:
        """Load a teacher, or one that reads texts."""
        student = self.student
        other = student is not None and reads_other_tokens(locate_model(directory), student)
        return (TextTeacher if other else Teacher)(
            directory,
            task,
            label_map=self.label_map,
            device=device,
            precision=self.precision,
            compiled=self.compiled,
        )


PLAIN = TeacherOptions()  # of teachers with the student's tokenizer and the task's labels


class LocalEnsemble(Ensemble):
    """Ensemble of teachers in this process, which run one after the other on ``gather``.

    On a GPU they have a stream of their own and answer to the host, which thus waits for them and
    not for the student's step in progress.
    """

    def __init__(self, teachers: Sequence[Teacher]) -> None:
        if not teachers:
            raise ConfigError("distillation.teachers is empty\n  allowed: at least one directory")
        self.teachers = tuple(teachers)

    @classmethod
    def load(
        cls,
        directories: Sequence[str | Path],
        task: Task,
        options: TeacherOptions = PLAIN,
        device: str | torch.device = "cpu",
    ) -> LocalEnsemble:
        """Load one teacher per directory."""
        return cls([options.load(directory, task, device) for directory in directories])

    @property
    def size(self) -> int:
        return len(self.teachers)

    @property
    def stats(self) -> Mapping[str, float]:
        return numbered({n: teacher.stats for n, teacher in enumerate(self.teachers)})

    def submit(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of the batch; ``gather`` does the work."""
        return inputs_of(batch)

    def gather(self, handle: dict[str, Any]) -> Tensor:
        with self._beside_the_student(handle):
            answers = [teacher.logits(**handle).cpu() for teacher in self.teachers]
        return stacked(answers, own_tokens=OWN_TOKENS in handle)

    @contextmanager
    def _beside_the_student(self, inputs: Mapping[str, Any]) -> Iterator[None]:
        """Launch kernels on the teachers' stream; without a GPU, do nothing."""
        if self._stream is None:
            yield
            return
        if any(isinstance(value, Tensor) and value.is_cuda for value in inputs.values()):
            self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            yield

    @cached_property
    def _stream(self) -> torch.cuda.Stream | None:
        device = self.teachers[0].device
        if device.type != "cuda":
            return None
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))  # which loaded the weights
        return stream
