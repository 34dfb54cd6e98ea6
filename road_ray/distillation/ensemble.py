"""Ensembles of teachers, which answer a batch with logits ``[M, B, ..., C]``: the base class,
teachers in this process, and the teachers of training rows, each of which may have its own.

``distributed/teachers.py`` has the ensemble in Ray actors, ``stored_ensemble.py`` the one
that reads answers that were given once. The student's loop, loss and head are the same for all.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from road_ray.data.examples import Ints, Longs
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.cross_tokenizer import PAD_LOGIT, TextsOf
from road_ray.distillation.teacher import Teacher, inputs_of
from road_ray.distillation.teacher_directory import PLAIN, TeacherOptions

BatchT = TypeVar("BatchT", bound=Mapping[str, Any])


class Ensemble(ABC):
    """Base class of ensembles: M teachers that answer batches with logits, in a fixed order. All
    of them answer every row, except files of answers: NaN where a row has none.

    The default methods suit an ensemble without resources. As a context manager it closes itself.
    """

    size: int
    """Number of teachers, M."""
    is_number: bool = False
    """True if the answers are known to be numbers, whose labels may be ``[B, 1]``."""
    stats: Mapping[str, float] = MappingProxyType({})
    """Metrics of the last answer, for the journal."""

    def submit(self, batch: Mapping[str, Any]) -> Any:
        """Send a batch to all teachers and return a handle at once: by default the inputs, for
        which ``gather`` does the work.
        """
        return inputs_of(batch)

    @abstractmethod
    def gather(self, handle: Any) -> Tensor:
        """Return the logits of a submitted batch. ``-> [M, B, ..., C]``, fp32."""

    def _joined(
        self, answers: Sequence[Tensor], figures: Iterable[Mapping[str, float]], **stats: float
    ) -> Tensor:
        """Stack the answers of the teachers, ``M x [B, ..., C] -> [M, B, ..., C]``, and make their
        figures the ``stats``, with names such as ``teachers/outside_0``. Answers in the teachers'
        own tokens differ in length; they are padded to the longest.
        """
        self.stats = stats | {
            f"teachers/{name}_{number}": value
            for number, of_teacher in enumerate(figures)
            for name, value in of_teacher.items()
        }
        if answers[0].ndim == 2:
            return torch.stack([*answers])
        shape = [max(sizes) for sizes in zip(*(answer.shape for answer in answers), strict=True)]
        stack = answers[0].new_full((len(answers), *shape), PAD_LOGIT)
        for target, answer in zip(stack, answers, strict=True):
            target[tuple(map(slice, answer.shape))] = answer
        return stack

    def close(self) -> None:  # noqa: B027  # only an ensemble with resources does
        """Release what the ensemble owns: actors, files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def submitted(
    batches: Iterable[BatchT], ensemble: Ensemble, lookahead: int
) -> Iterator[tuple[BatchT, Any]]:
    """Yield each batch with its handle, in order, once ``lookahead`` more have been submitted."""
    waiting: deque[tuple[BatchT, Any]] = deque()
    for batch in batches:
        waiting.append((batch, ensemble.submit(batch)))
        if len(waiting) > lookahead:
            yield waiting.popleft()
    yield from waiting


class LocalEnsemble(Ensemble):
    """Ensemble of teachers in this process, which run one after the other on ``gather``.

    On a GPU they have a stream of their own and answer to the host, which thus waits for them and
    not for the student's step in progress.
    """

    def __init__(
        self,
        directories: Sequence[str | Path],
        task: Task,
        options: TeacherOptions = PLAIN,
        device: str | torch.device = "cpu",
    ) -> None:
        self.teachers = [Teacher(directory, task, options, device) for directory in directories]
        self.size = len(self.teachers)
        self._stream: torch.cuda.Stream | None = None
        if (device := self.teachers[0].device).type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._stream.wait_stream(torch.cuda.current_stream(device))  # which loaded the weights

    def gather(self, handle: dict[str, Any]) -> Tensor:
        stream = self._stream
        on_gpu = any(isinstance(value, Tensor) and value.is_cuda for value in handle.values())
        if stream is not None and on_gpu:
            stream.wait_stream(torch.cuda.current_stream(stream.device))
        with torch.cuda.stream(stream):  # without a GPU it does nothing
            answers = [teacher.logits(**handle).cpu() for teacher in self.teachers]
        return self._joined(answers, [teacher.stats for teacher in self.teachers])


class RowEnsemble(Ensemble):
    """Ensemble of the teachers of training rows, which batches of ``road_ray`` name by ``rows``.

    ``members[k]`` are the models that answer the rows of fold ``k``, those that were trained
    without it; ``folds`` ``[rows]`` is the fold of each row. On their own training rows teachers
    are nearly always right, so correctness carries no information there; out of fold their accuracy
    is that on new data. Other models are the one member, for fold 0. ``texts`` gives those of rows
    to models with another tokenizer than the student's. ``files`` are the teachers that are no
    models, by their number among those of a row. Both are functions of rows and width.
    """

    def __init__(
        self,
        members: Sequence[Ensemble],
        folds: Ints,
        texts: TextsOf | None = None,
        files: Mapping[int, Callable[[Longs, int], Tensor]] = MappingProxyType({}),
    ) -> None:
        self.members, self.files = tuple(members), dict(files)
        self._folds, self._texts = folds, texts
        self.size = len(self.files) + (self.members[0].size if self.members else 0)

    def submit(self, batch: Mapping[str, Any]) -> tuple[Longs, int, list[tuple[int, Longs, Any]]]:
        """Send the rows of each fold to its models; return rows, width, and of each fold its
        number, its places in the batch and the handle.
        """
        numbers, width = torch.as_tensor(batch["rows"]).cpu().numpy(), batch["input_ids"].shape[-1]
        texts = {} if self._texts is None else self._texts(numbers, width)
        whole = {**batch, **texts}
        folds, parts = self._folds[numbers], []
        for fold in sorted({*folds.tolist()}) if self.members else ():
            places = np.flatnonzero(folds == fold)
            handle = self.members[fold].submit(inputs_of(whole, places))
            parts.append((fold, places, handle))
        return numbers, width, parts

    def gather(self, handle: tuple[Longs, int, list[tuple[int, Longs, Any]]]) -> Tensor:
        """Return the logits in the order of the batch. ``-> [M, B, ..., C]``, fp32."""
        numbers, width, parts = handle
        answers, stats = list[Tensor](), dict[str, float]()
        for fold, _, part in parts:
            answers.append(self.members[fold].gather(part))
            for name, value in self.members[fold].stats.items():
                known = stats.get(name, 0.0)  # of other folds, which work at the same time
                stats[name] = max(known, value) if name.startswith("time/") else known + value
        self.stats = stats
        of_models: Iterator[Tensor] = iter(())
        if parts:
            order = np.concatenate([places for _, places, _ in parts]).argsort()
            of_models = iter(torch.cat(answers, 1)[:, torch.from_numpy(order)])
        of_files = {number: read(numbers, width) for number, read in self.files.items()}
        every = (of_files[n] if n in of_files else next(of_models) for n in range(self.size))
        return torch.stack([*every])
